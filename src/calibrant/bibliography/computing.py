"""Works on computing: random numbers, functions, hashes, optimisation, networks that rise."""

from __future__ import annotations

from calibrant.bibliography.venues import ICML, NEURIPS, PMLR
from calibrant.bibliography.work import Work

# fmt: off
WORKS = (
    Work("broder1997resemblance", "inproceedings", "Broder, Andrei Z.",
         "On the resemblance and containment of documents", "Compression and Complexity of Sequences", 1997,
         pages="21-29", doi="10.1109/SEQUEN.1997.666900"),
    Work("cody1980software", "book", "Cody, William J. and Waite, William",
         "Software manual for the elementary functions", "Prentice-Hall", 1980),
    Work("frank1956algorithm", "article", "Frank, Marguerite and Wolfe, Philip",
         "An algorithm for quadratic programming", "Naval Research Logistics Quarterly", 1956,
         volume="3", number="1-2", pages="95-110", doi="10.1002/nav.3800030109"),
    Work("giles2012approximating", "incollection", "Giles, Mike",
         "Approximating the erfinv function", "GPU Computing Gems Jade Edition", 2012,
         publisher="Morgan Kaufmann", pages="109-116", doi="10.1016/B978-0-12-385963-1.00010-1"),
    Work("jaggi2013revisiting", "inproceedings", "Jaggi, Martin",
         "Revisiting Frank-Wolfe: projection-free sparse convex optimization", ICML, 2013,
         series=PMLR, volume="28", pages="427-435"),
    Work("moshier1989methods", "book", "Moshier, Stephen L.",
         "Methods and programs for mathematical functions", "Ellis Horwood", 1989),
    Work("salmon2011parallel", "inproceedings",
         "Salmon, John K. and Moraes, Mark A. and Dror, Ron O. and Shaw, David E.",
         "Parallel random numbers: as easy as 1, 2, 3",
         "International Conference for High Performance Computing, Networking, Storage and Analysis", 2011,
         doi="10.1145/2063384.2063405"),
    Work("shepherd1981chebyshev", "article", "Shepherd, M. M. and Laframboise, J. G.",
         "Chebyshev approximation of (1 + 2x)exp(x²)erfc x in 0 ≤ x < ∞", "Mathematics of Computation", 1981,
         volume="36", number="153", pages="249-253", doi="10.1090/S0025-5718-1981-0595058-X",
         formula=r"Chebyshev approximation of $(1 + 2x)\exp(x^2)\mathrm{erfc}\,x$ in $0 \leq x < \infty$"),
    Work("wehenkel2019unconstrained", "inproceedings", "Wehenkel, Antoine and Louppe, Gilles",
         "Unconstrained monotonic neural networks", NEURIPS, 2019,
         volume="32", pages="1545-1555", arxiv="1908.05164"),
)
# fmt: on
