"""Works on the uncertainty of networks: ensembles, shift, rows from outside, rejection, comparing models fairly."""

from __future__ import annotations

from calibrant.bibliography.venues import ICLR, ICML, NEURIPS, PMLR
from calibrant.bibliography.work import Work

# fmt: off
WORKS = (
    Work("ashukha2020pitfalls", "inproceedings",
         "Ashukha, Arsenii and Lyzhov, Alexander and Molchanov, Dmitry and Vetrov, Dmitry",
         "Pitfalls of in-domain uncertainty estimation and ensembling in deep learning", ICLR, 2020,
         arxiv="2002.06470"),
    Work("bouthillier2021accounting", "inproceedings",
         "Bouthillier, Xavier and Delaunay, Pierre and Bronzi, Mirko and Trofimov, Assya and Nichyporuk, Brennan and "
         "Szeto, Justin and Mohammadi Sepahvand, Nazanin and Raff, Edward and Madan, Kanika and Voleti, Vikram and "
         "Ebrahimi Kahou, Samira and Michalski, Vincent and Arbel, Tal and Pal, Chris and Varoquaux, Gaël and "
         "Vincent, Pascal",
         "Accounting for variance in machine learning benchmarks", "Proceedings of Machine Learning and Systems", 2021,
         volume="3", pages="747-769", arxiv="2103.03098"),
    Work("card2020little", "inproceedings",
         "Card, Dallas and Henderson, Peter and Khandelwal, Urvashi and Jia, Robin and Mahowald, Kyle and "
         "Jurafsky, Dan",
         "With little power comes great responsibility",
         "Conference on Empirical Methods in Natural Language Processing", 2020,
         pages="9263-9274", doi="10.18653/v1/2020.emnlp-main.745"),
    Work("davis2006relationship", "inproceedings", "Davis, Jesse and Goadrich, Mark",
         "The relationship between Precision-Recall and ROC curves", ICML, 2006,
         pages="233-240", doi="10.1145/1143844.1143874"),
    Work("depeweg2018decomposition", "inproceedings",
         "Depeweg, Stefan and Hernández-Lobato, José Miguel and Doshi-Velez, Finale and Udluft, Steffen",
         "Decomposition of uncertainty in Bayesian deep learning for efficient and risk-sensitive learning", ICML, 2018,
         series=PMLR, volume="80", pages="1184-1193", arxiv="1710.07283"),
    Work("gal2016uncertainty", "phdthesis", "Gal, Yarin",
         "Uncertainty in deep learning", "University of Cambridge", 2016),
    Work("geifman2017selective", "inproceedings", "Geifman, Yonatan and El-Yaniv, Ran",
         "Selective classification for deep neural networks", NEURIPS, 2017,
         volume="30", pages="4878-4887", arxiv="1705.08500"),
    Work("geifman2019bias", "inproceedings", "Geifman, Yonatan and Uziel, Guy and El-Yaniv, Ran",
         "Bias-reduced uncertainty estimation for deep neural classifiers", ICLR, 2019, arxiv="1805.08206"),
    Work("gopal2021calibration", "misc", "Gopal, Achintya",
         "Why calibration error is wrong given model uncertainty: using posterior predictive checks with deep learning",
         "arXiv", 2021, arxiv="2112.01477"),
    Work("hendrycks2017baseline", "inproceedings", "Hendrycks, Dan and Gimpel, Kevin",
         "A baseline for detecting misclassified and out-of-distribution examples in neural networks", ICLR, 2017,
         arxiv="1610.02136"),
    Work("kendall2017uncertainties", "inproceedings", "Kendall, Alex and Gal, Yarin",
         "What uncertainties do we need in Bayesian deep learning for computer vision?", NEURIPS, 2017,
         volume="30", pages="5574-5584", arxiv="1703.04977"),
    Work("krishnan2020improving", "inproceedings", "Krishnan, Ranganath and Tickoo, Omesh",
         "Improving model calibration with accuracy versus uncertainty optimization", NEURIPS, 2020,
         volume="33", pages="18237-18248", arxiv="2012.07923"),
    Work("lakshminarayanan2017simple", "inproceedings",
         "Lakshminarayanan, Balaji and Pritzel, Alexander and Blundell, Charles",
         "Simple and scalable predictive uncertainty estimation using deep ensembles", NEURIPS, 2017,
         volume="30", pages="6402-6413", arxiv="1612.01474"),
    Work("liang2018enhancing", "inproceedings", "Liang, Shiyu and Li, Yixuan and Srikant, R.",
         "Enhancing the reliability of out-of-distribution image detection in neural networks", ICLR, 2018,
         arxiv="1706.02690"),
    Work("liu2020energy", "inproceedings", "Liu, Weitang and Wang, Xiaoyun and Owens, John and Li, Yixuan",
         "Energy-based out-of-distribution detection", NEURIPS, 2020,
         volume="33", pages="21464-21475", arxiv="2010.03759"),
    Work("miller2024adding", "misc", "Miller, Evan",
         "Adding error bars to evals: a statistical approach to language model evaluations", "arXiv", 2024,
         arxiv="2411.00640"),
    Work("mukhoti2018evaluating", "misc", "Mukhoti, Jishnu and Gal, Yarin",
         "Evaluating Bayesian deep learning methods for semantic segmentation", "arXiv", 2018, arxiv="1811.12709"),
    Work("nadeem2009accuracy", "inproceedings",
         "Nadeem, Malik Sajjad Ahmed and Zucker, Jean-Daniel and Hanczar, Blaise",
         "Accuracy-rejection curves (ARCs) for comparing classification methods with a reject option",
         "International Workshop on Machine Learning in Systems Biology", 2009,
         series=PMLR, volume="8", pages="65-81"),
    Work("ovadia2019trust", "inproceedings",
         "Ovadia, Yaniv and Fertig, Emily and Ren, Jie and Nado, Zachary and Sculley, D. and Nowozin, Sebastian and "
         "Dillon, Joshua V. and Lakshminarayanan, Balaji and Snoek, Jasper",
         "Can you trust your model's uncertainty? Evaluating predictive uncertainty under dataset shift", NEURIPS, 2019,
         volume="32", pages="13991-14002", arxiv="1906.02530"),
    Work("russakovsky2015imagenet", "article",
         "Russakovsky, Olga and Deng, Jia and Su, Hao and Krause, Jonathan and Satheesh, Sanjeev and Ma, Sean and "
         "Huang, Zhiheng and Karpathy, Andrej and Khosla, Aditya and Bernstein, Michael and Berg, Alexander C. and "
         "Fei-Fei, Li",
         "ImageNet Large Scale Visual Recognition Challenge", "International Journal of Computer Vision", 2015,
         volume="115", number="3", pages="211-252", doi="10.1007/s11263-015-0816-y"),
    Work("scheffer2001active", "inproceedings", "Scheffer, Tobias and Decomain, Christian and Wrobel, Stefan",
         "Active hidden Markov models for information extraction", "Advances in Intelligent Data Analysis", 2001,
         series="Lecture Notes in Computer Science", volume="2189", pages="309-318", doi="10.1007/3-540-44816-0_31"),
    Work("szegedy2016rethinking", "inproceedings",
         "Szegedy, Christian and Vanhoucke, Vincent and Ioffe, Sergey and Shlens, Jon and Wojna, Zbigniew",
         "Rethinking the Inception architecture for computer vision",
         "IEEE Conference on Computer Vision and Pattern Recognition", 2016,
         pages="2818-2826", doi="10.1109/CVPR.2016.308"),
)
# fmt: on
