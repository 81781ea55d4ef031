"""Real networks: the numbers that the data's README and the published tables print, to the printed digits."""

import csv
import math

import numpy as np
import pytest

import calibrant as cal

CNNS = """
densenet_BC_100_12                  .9562 .2017 .0736 .0254
pyramidnet_basic_110_270            .9621 .1627 .0634 .0232
resnet_basic_110                    .9406 .3272 .1017 .0413
resnet_preact_bottleneck_164        .9428 .2849 .0971 .0386
resnext_29_8x64d                    .9646 .1274 .0569 .0129
shake_shake_26_2x64d_SSI_cutout16   .9730 .1144 .0456 .0150
vgg_15_BN_64                        .9318 .3439 .1154 .0465
wrn_28_10                           .9624 .1611 .0643 .0214
"""
SHIFT = """
clean             .915 .928 .933 .926   .9440  .1844 .0210
gaussian_noise_1  .722 .725 .762 .770   .7850  .8427 .0557
gaussian_noise_2  .545 .515 .555 .565   .5725 2.0030 .2223
gaussian_noise_3  .325 .358 .402 .372   .3550 3.8568 .4259
gaussian_noise_4  .295 .310 .325 .325   .3050 4.4386 .4569
gaussian_noise_5  .262 .240 .282 .255   .2475 5.1581 .5180
"""
CLEANLAB = """
cifar10 .9294 .0326
mnist   .9913 .0030
20news  .9234 .2011
"""
TEMPERATURES = {"resnet110": 2.395, "densenet40": 2.8826}


def lines(table):
    return [line.split() for line in table.strip().splitlines()]


def assert_prints(values, printed):
    """Each value rounds to the number as printed (half either way)."""
    for value, text in zip(values, printed, strict=True):
        digits = len(text.partition(".")[2])
        assert abs(value - float(text)) <= 0.5 * 10.0**-digits + 1e-9, (list(values), printed)


@pytest.fixture
def load(networks):
    return networks


def values(predictions, specs):
    return list(cal.measure(predictions, specs).values())


@pytest.mark.parametrize(
    ("network", "clip", "printed"),
    [
        ("resnet110", "", "0.9356 0.04750 0.29580 0.358274 0.011019"),
        ("densenet40", "", "0.9242 0.05500 0.33396 0.430059 0.012738"),
        ("densenet40", "(clip=1e-15)", "0.9242 0.05500 0.33396 0.428207 0.012738"),
    ],
)
def test_networks_of_nn_calibration(load, network, clip, printed):
    stored = load("cifar10_nn_calibration_logits")
    k = list(stored["model_names"]).index(network)
    predictions = cal.Classification.from_logits(stored["logits_test"][k], stored["labels_test"])
    specs = f"accuracy,ece,mce,nll{clip},brier(per_class=true)"
    assert_prints(values(predictions, specs), printed.split())


@pytest.fixture
def published(load, data_folder):
    """A row of Kull's table, and the predictions that it is of: at T = 1, or at the T of the README."""

    def read(network, method):
        path = data_folder / "published_results" / "dirichlet_dnn_test_scores.csv"
        if not path.exists():
            pytest.skip(f"{path} is not there")
        with path.open() as stream:
            (row,) = (r for r in csv.DictReader(stream) if (r["Name"], r["Method"]) == (f"{network}_c10", method))
        stored = load("cifar10_nn_calibration_logits")
        k = list(stored["model_names"]).index(network)
        temperature = {"uncal": 1.0, "temp_scale": TEMPERATURES[network]}[method]
        logits = stored["logits_test"][k].astype(np.float64) / temperature
        return row, cal.Classification.from_logits(logits, stored["labels_test"])

    return read


@pytest.mark.parametrize(
    ("network", "printed"), [("resnet110", "0.01132 0.209261 0.009785"), ("densenet40", "0.00946 0.225086 0.01100")]
)
def test_networks_of_nn_calibration_at_their_temperature(published, network, printed):
    _, predictions = published(network, "temp_scale")
    assert_prints(values(predictions, "ece,nll,brier(per_class=true)"), printed.split())


@pytest.mark.parametrize("network", TEMPERATURES)
@pytest.mark.parametrize("method", ["uncal", "temp_scale"])
def test_published_class_wise_errors_of_kull(published, network, method):
    """ECE_CW is a sum over classes and of 14 bins: 15 edges were taken for 15 bins. ECE2 and MCE2 pool all entries.

    ECE_CW2, its square form, is tested after scaling only: before it, float32 probabilities of exactly 1 had a bin of
    their own there, and were 1 more often for a softmax that subtracts the largest logit of all rows.
    """
    row, predictions = published(network, method)
    z = predictions.scores[0]
    p = np.exp(z - np.logaddexp.reduce(z, axis=1, keepdims=True))
    hit = predictions.labels[:, None] == np.arange(10)
    found = values(predictions, "cwce(p=1,bins=14)") + values(
        cal.Judged.from_confidence(p.ravel(), hit.ravel()), "ece,mce"
    )
    keys = ["ECE_CW", "ECE2", "MCE2"]
    if method == "temp_scale":
        found += [values(predictions, "cwce(bins=14)")[0] ** 2]
        keys += ["ECE_CW2"]
    tolerance = 6e-7 if method == "uncal" else 6e-6  # T is printed to four digits
    assert found == pytest.approx([float(row[f"{key}_test"]) for key in keys], abs=tolerance)
    assert values(predictions, "cwce(p=1)")[0] != pytest.approx(found[0], abs=3e-6)  # 15 bins


@pytest.mark.parametrize("network", TEMPERATURES)
@pytest.mark.parametrize("method", ["uncal", "temp_scale"])
def test_published_table_of_kull(published, network, method):
    """Error, ECE, MCE, log-loss (clipped at 1e-15, as scikit-learn did) and Brier, at T = 1 and the fitted T."""
    row, predictions = published(network, method)
    accuracy, *rest = values(predictions, "accuracy,ece,ece(norm=max),nll(clip=1e-15),brier(per_class=true)")
    printed = [float(row[f"{key}_test"]) for key in ("ECE", "MCE", "Loss", "Brier")]
    assert 100 * (1 - accuracy) == pytest.approx(float(row["Error_test"]), abs=1e-9)
    if method == "uncal":
        assert rest == pytest.approx(printed, abs=6e-7)
    else:  # T is printed to four digits
        assert rest == pytest.approx(printed, abs=2e-5)


def test_eight_architectures_and_their_mean(load):
    stored = load("cifar10_test_8cnn_logits")
    ensemble = cal.Classification.from_logits(
        stored["logits"], stored["labels"], member_names=stored["model_names"]
    )  # fmt: skip
    for k, (name, *printed) in enumerate(lines(CNNS)):
        assert ensemble.member_names[k] == name
        assert_prints(values(ensemble.member(k), "accuracy,nll,brier,ece"), printed)
    assert_prints(values(ensemble, "accuracy,nll,brier,ece"), [".9691", ".1003", ".0477", ".0081"])


@pytest.mark.parametrize(
    ("trained_on", "accuracies", "errors", "mean"),
    [
        ("human", (".806", ".901"), (".014", ".058"), (".9024", ".0705")),
        ("control", (".796", ".885"), (".060", ".106"), (".8958", ".0374")),
    ],
)
def test_ten_folds_of_cifar10h(load, trained_on, accuracies, errors, mean):
    stored = load("cifar10h_10fold_16cnn_logits")
    ensemble = cal.Classification.from_logits(stored[f"logits_{trained_on}"], stored["labels"])
    single = np.array([values(ensemble.member(k), "accuracy,ece") for k in range(8)])
    assert_prints([single[:, 0].min(), single[:, 0].max()], accuracies)
    assert_prints([single[:, 1].min(), single[:, 1].max()], errors)
    assert_prints(values(ensemble, "accuracy,ece"), mean)


def test_vgg16(load):
    stored = load("cifar10_test_vgg16_probs")
    predictions = cal.Classification.from_probs(stored["probs"], stored["labels"])
    assert_prints(values(predictions, "accuracy,ece"), (".9359", ".0398"))


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("cifar10_test_netcal_probs", ".5308 .1079 .9109 .0537"),
        ("cifar100_test_netcal_probs", ".1246 .0149 .7541 .1422 .7543 .0581"),
    ],
)
def test_networks_of_netcal(load, name, printed):
    stored = load(name)
    networks = cal.Classification.from_probs(stored["probs"], stored["labels"])
    found = [v for k in range(networks.members) for v in values(networks.member(k), "accuracy,ece")]
    assert_prints(found, printed.split())


@pytest.mark.parametrize(("name", "accuracy", "ece"), lines(CLEANLAB))
def test_cross_validated_probabilities(load, name, accuracy, ece):
    stored = load(f"{name}_test_set_cleanlab_cv_probs")
    predictions = cal.Classification.from_probs(stored["probs"], stored["labels"])
    assert_prints(values(predictions, "accuracy,ece"), (accuracy, ece))


def test_imdb_rows_that_sum_to_more_than_one(load):
    """The README's .0399 leaves out the 2,744 rows whose confidence is 1.00001; divided by their sum they count."""
    stored = load("imdb_test_set_cleanlab_cv_probs")
    predictions = cal.Classification.from_probs(stored["probs"], stored["labels"])
    assert_prints(values(predictions, "accuracy,ece"), (".8958", ".0404"))
    conf = stored["probs"].max(1).astype(np.float64)
    hit = stored["probs"].argmax(1) == stored["labels"]
    bins = np.ceil(conf * 15)
    kept = [abs(np.sum((hit - conf)[bins == b])) for b in range(1, 16)]
    assert_prints([np.sum(kept) / len(conf)], [".0399"])
    notes = [note.code for note in cal.evaluate(predictions, "accuracy").warnings]
    assert notes == ["renormalised"]


def test_fourteen_imagenet_models_as_judged_answers(load):
    stored = load("imagenet_val_top1_14models")
    found = {}
    for name, pred, confidence in zip(stored["model_names"], stored["pred"], stored["confidence"], strict=True):
        judged = cal.Judged.from_confidence(confidence, pred == stored["labels"])
        found[str(name)] = values(judged, "accuracy,ece")
    accuracy, ece = np.array(list(found.values())).T
    assert_prints([accuracy.min(), accuracy.max()], (".751", ".819"))
    assert_prints([ece.min(), ece.max()], (".019", ".124"))
    assert_prints(found["ImageNet_torchvision/resnet101"], (".7737", ".0492"))


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("densenet40_c100", ("0.7000", "0.211563")),
        ("resnet110_c100", ("0.7148", "0.184805")),
        ("densenet40_c10", ("0.9242", "0.055003")),
        ("resnet110_c10", ("0.9356", "0.047504")),
    ],
)
def test_top_1_of_nn_calibration(load, name, printed):
    """CIFAR-100 as in Kull's csv; CIFAR-10 as the logits of the same networks give."""
    stored = load("nn_calibration_top1")
    right = stored[f"{name}_pred"] == stored[f"{name}_labels"]
    judged = cal.Judged.from_confidence(stored[f"{name}_confidence"], right)
    assert_prints(values(judged, "accuracy,ece"), printed)


@pytest.mark.parametrize("line", lines(SHIFT), ids=lambda line: line[0])
def test_ensemble_under_shift(load, line):
    name, *printed = line
    stored = load("cifar10_resnet_ensemble_shift_ood_logits")
    labels = stored["labels_clean" if name == "clean" else "labels_gaussian_noise"]
    ensemble = cal.Classification.from_logits(stored[f"logits_{name}"], labels)
    single = [values(ensemble.member(k), "accuracy")[0] for k in range(4)]
    assert_prints(single, printed[:4])
    assert_prints(values(ensemble, "accuracy,nll,ece"), printed[4:])


def test_maximum_probability_tells_outside_images(load):
    """The ensemble's confidence ranks clean rows above rows of another data set."""
    stored = load("cifar10_resnet_ensemble_shift_ood_logits")
    inside = cal.Classification.from_logits(stored["logits_clean"], stored["labels_clean"])
    outside = {
        name: cal.Classification.from_logits(stored[f"logits_ood_{name}"])
        for name in ("mnist", "fashion_mnist", "notmnist")
    }
    found = cal.detect(inside, outside, "max_probability", "auroc", intervals=False)
    assert [result.input for result in found.results] == list(outside)
    assert_prints([result["auroc"].value for result in found.results], [".9251", ".9405", ".9522"])


def test_ensembles_of_real_networks_obey_jensen(load):
    """The mean of probabilities is no worse than the mean of the members' NLL and Brier scores."""
    stored = load("cifar10_test_8cnn_logits")
    ensemble = cal.Classification.from_logits(stored["logits"], stored["labels"])
    single = np.array([values(ensemble.member(k), "nll,brier") for k in range(8)])
    assert all(np.array(values(ensemble, "nll,brier")) < single.mean(0))


def test_human_votes_as_soft_labels(load, data_folder):
    """Peterson's soft cross-entropy, computed here by hand."""
    path = data_folder / "cifar10" / "cifar10h_counts.npz"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    counts = np.load(path, allow_pickle=False)["counts"].astype(np.float64)
    q = counts / counts.sum(1, keepdims=True)
    stored = load("cifar10_test_8cnn_logits")
    z = stored["logits"][0].astype(np.float64)
    log_p = z - np.logaddexp.reduce(z, axis=1, keepdims=True)
    measured = cal.measure(cal.Classification.from_logits(z, label_probs=q), "nll,accuracy")
    assert measured["nll"] == pytest.approx(-(q * log_p).sum() / len(q), abs=1e-9)
    assert measured["accuracy"] == pytest.approx(q[np.arange(len(q)), z.argmax(1)].mean(), abs=1e-12)
    assert math.isfinite(measured["nll"])
