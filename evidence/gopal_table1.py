"""Table 1 of Gopal (2021), made anew: `python -m evidence.gopal_table1 FOLDER` writes docs/reproduction.md.

FOLDER is what `calibrant reproduce gopal table1 --out FOLDER` made; its figures 4 and 5 are copied beside the page.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from calibrant.bench.gopal.table import Table1

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reproduction.md"
SHOWN = ("4", "5")

TEXT = """# Reproductions

`calibrant reproduce` trains what a paper trained, judges it as the paper did, and sets the numbers beside the printed
ones. Each statement of the paper is marked as found or not, seed by seed.

```console
$ calibrant reproduce
gopal: Gopal (2021): Why calibration error is wrong given model uncertainty
  table1: checks of calibration error on simulated data, in and out of
    distribution; with figures 3, 4, 5 and 10
…
```

It needs PyTorch (`pip install '.[torch]'`), and for figures and page the extra `report`.

## Gopal (2021), table 1

An ensemble and a network with dropout learn y ~ N((x − 1)², ½) from x ~ N(0, 1), without the rows whose x lies in
[−1.5, 0]. Then calibration error is checked on rows like those of training, and on rows of the removed region. Read as
*Bayesian*, one member draws all outcomes of a replicate; read as *independent*, every row has a member of its own.
[Why calibration error is wrong for your ensemble](checks.md) tells the idea.

```bash
calibrant reproduce gopal table1                        # half an hour a seed on one core; minutes on a GPU
calibrant reproduce gopal table1 --seeds 10 --device cuda
calibrant reproduce gopal table1 --quick --out quick    # under a minute
```

### The table

{made}

{numbers}

### Claims of the paper

{statements}

![{figure_4}](figures/gopal-figure-4.svg)

Functions drawn in the removed region (figure 4). An independent ensemble has another member at every x, which no
smooth truth looks like.

![{figure_5}](figures/gopal-figure-5.svg)

What each reading expects of calibration error, and what was observed (figure 5). The axis is logarithmic here.

### Differences from the paper

- **Seeds.** The paper shows one draw of data and networks; here everything is drawn anew for each seed. p-values of
  single seeds differ much: whether one ensemble passes says little of ensembles.
- **Sharpness of the independent reading** needs no model. Its replicates are uniform CDF values, so that calibration
  error over L levels and N rows has the law of L/N times the Cramér–von Mises statistic, whose 5 % and 95 % quantiles
  are 0.0366 and 0.4614: 0.042 at 1000 rows, 0.0042 at 10 000, ten times apart. The paper prints 0.002 and 0.001.
  These cannot both be of the sizes in its appendix F, so that the order of its values can be compared, and its values
  in distribution cannot.
- **Levels.** Calibration error is the sum over 100 levels, as in the paper's tables 2 and 3; table 1 does not say.
- **Masks.** 128 masks of dropout stand for the average, as in the paper; here a replicate draws one of the same 128.
- **Gradients are clipped** to a norm of 1, of which the paper says nothing. Without that, at its learning rate of
  0.005, single steps threw 2 to 7 of 50 networks so far off that they never came back (training loss 1.2 to 7 instead
  of 1.07; five seeds on a GPU). Out of distribution the independent reading still failed and the Bayesian one passed
  with all five seeds, but sharpness was that of the lost networks, 10 to 16, far above that of dropout.
  `Plan(clip=None)` trains so.
- **What the paper leaves open.** Dropout stands before every dense layer but the first. x and y are standardised by the
  training rows. The standard deviation is softplus of the second output, at least 0.001 of that of y. Weights begin as
  PyTorch has them. There is no weight decay. Members of an ensemble differ in weights and order of rows.
- **Passing** is the paper's rule, the observed value within the range of 1000 replicates; the usual rule of `calibrant
  check`, within 95 % of them, stands beside it.
- **`--quick`** has 10 networks, 5000 rows and 20 epochs. Of four small settings that were tried it is the one whose
  Bayesian ensemble passed out of distribution with all of four seeds, so it shows what the paper found and proves
  nothing. With 10 epochs on 10 000 rows it failed with all of them.

### Output files

Every step is a file, and what is finished is not done again: run the same command with the same folder, and it goes
on, from the last epoch if it was stopped in training. A folder of other settings is refused.

| file | what it is |
| --- | --- |
| `plan.json` | all settings |
| `seed-0/deep_ensemble.safetensors` | networks; `calibrant.methods.load` reads them |
| `seed-0/deep_ensemble-in.npz`, `-out.npz` | predictions |
| `seed-0/deep_ensemble-in.json`, `-out.json` | what `calibrant check` finds in them |
| `table1.json`, `table1.md` | the table |
| `figures/`, `report.html` | figures 3, 4, 5 and 10 of the first seed (SVG, PNG, CSV); the checks of all seeds |

`calibrant check seed-0/deep_ensemble-in.npz -s calibration_error --rule range` gives the numbers of the table, and
`calibrant report seed-0` a page of one seed.

Networks may be trained on another machine. `calibrant.bench.gopal.train` does that alone, and needs neither Numba nor
the libraries of charts; copy `plan.json` and `seed-*/*.safetensors`, and the command goes on from there.

```python
from calibrant.bench import gopal

plan = gopal.Plan(seeds=1, rows=500, members=3, masks=8, hidden=(32, 32), epochs=3, rows_out=500, draws=200)
gopal.train("small", plan=plan)  # there
result = gopal.table1("small", plan=plan)  # and here
print(result.title)
```

```text title="output"
Gopal (2021), table 1, own settings: 3 epochs, 500 rows, 3 members
```
"""
MADE = {
    "full": "By the paper's settings, with clipping: 50 networks, 128 masks, 10 000 rows, 500 epochs; {seeds} seeds.",
    "quick": "**A quick run, not the paper's**: {members} networks, {rows} rows, {epochs} epochs; {seeds} seeds.",
    "own": "**Not the paper's settings**: {members} networks, {rows} rows, {epochs} epochs; {seeds} seeds.",
}


def page_of(table: Table1) -> str:
    """The page from a table."""
    numbers, _, rest = table.markdown().partition("\n\n")[2].partition("What the paper says of it:\n\n")
    statements = rest.partition("\n\n")[0]
    said = {f"figure_{number}": f"Figure {number}, seed 0, {table.title}" for number in SHOWN}
    made = MADE[table.plan.kind].format(**vars(table.plan))
    return TEXT.format(made=made, numbers=numbers.strip(), statements=statements.strip(), **said)


def written(folder: Path, page: Path = PAGE) -> list[Path]:
    """Write the page from a finished folder, and copy its figures beside it."""
    page.write_text(page_of(Table1.load(folder / "table1.json")), encoding="utf-8")
    figures = page.parent / "figures"
    figures.mkdir(exist_ok=True)
    copied = [shutil.copy(folder / "figures" / f"figure-{n}.svg", figures / f"gopal-figure-{n}.svg") for n in SHOWN]
    return [page, *copied]


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--write", type=Path, default=PAGE)
    arguments = parser.parse_args()
    print("\n".join(f"written: {path}" for path in written(arguments.folder, arguments.write)))


if __name__ == "__main__":
    main()
