"""Predictions of numbers from arrays, tensors, frames, estimators, distributions and posteriors; what is refused."""

import itertools
import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.linear_model import BayesianRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch.distributions import Independent, LogNormal, Normal, StudentT

import calibrant as cal
from calibrant.errors import ShapeError, UsageError, ValuesError

Regression = cal.Regression
RNG = np.random.default_rng(0)
N, M = 23, 3
MEAN, STD = RNG.normal(size=(M, N)), np.exp(RNG.normal(size=(M, N)))
Y = RNG.normal(size=N)
DRAWS = RNG.normal(size=(9, N))
LEVELS = [0.1, 0.5, 0.9]
QUANTILES = np.sort(RNG.normal(size=(N, 3)), axis=1)


def make(kind, **known):
    """One of the three kinds, the Gaussian one with members."""
    if kind == "gaussian":
        return Regression.from_gaussian(MEAN, STD, Y, **known)
    if kind == "samples":
        return Regression.from_samples(DRAWS, Y, **known)
    return Regression.from_quantiles(QUANTILES, LEVELS, Y, **known)


def assert_same(a, b, tolerance=1e-12):
    """The same value of every metric."""
    assert cal.measure(a) == pytest.approx(cal.measure(b), rel=tolerance, abs=tolerance)


# ------------------------------------------------------------------------------------------- shapes
def test_shapes_and_what_is_said_of_them():
    one = Regression.from_gaussian(MEAN[0], STD[0], Y)
    assert (one.n, len(one), one.members, one.has_labels) == (N, N, 1, True)
    assert one.mean.shape == one.std.shape == (1, N)
    assert_same(one, Regression.from_gaussian(MEAN[:1], STD[:1], Y))
    assert repr(make("gaussian")) == f"Regression('predictions', gaussian, rows={N}, members=3, y=True)"
    assert repr(make("samples")) == f"Regression('predictions', samples, rows={N}, samples=9, y=True)"
    assert repr(make("quantiles")) == f"Regression('predictions', quantiles, rows={N}, levels=3, y=True)"
    assert (make("samples").members, make("quantiles").members) == (1, 1)
    described = [cal.evaluate(make(kind)).inputs[0] for kind in ("gaussian", "samples", "quantiles")]
    assert [item["kind"] for item in described] == ["gaussian", "samples", "quantiles"]
    assert [item["members"] for item in described] == [3, 1, 1]
    assert described[1]["samples"] == 9


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: Regression.from_gaussian(MEAN.T, STD.T, Y), "mean: expected rows last.*transpose it"),
        (lambda: Regression.from_samples(DRAWS.T, Y), "samples: expected rows last.*transpose it"),
        (lambda: Regression.from_samples(DRAWS.T, Y.tolist()), "transpose it"),
        (lambda: Regression.from_samples(DRAWS.T, torch.tensor(Y)), "transpose it"),
        (lambda: Regression.from_samples(DRAWS.T, pd.Series(Y)), "transpose it"),
        (lambda: Regression.from_quantiles(QUANTILES.T, LEVELS, Y), r"quantiles: expected shape \(N, 3\)"),
        (lambda: Regression.from_quantiles(QUANTILES, LEVELS[:2], Y), r"quantiles: expected shape \(N, 2\)"),
        (lambda: Regression.from_quantiles(QUANTILES[:, 0], [0.5], Y), "quantiles: expected shape"),
        (lambda: Regression.from_quantiles(QUANTILES, [LEVELS], Y), "levels: expected shape"),
        (lambda: Regression.from_samples(DRAWS[0], Y), r"samples: expected shape \(S, N\)"),
        (lambda: Regression.from_gaussian(MEAN, STD[0], Y), "std: expected the shape of mean"),
        (lambda: Regression.from_gaussian(MEAN[0], 1.0, Y), r"std: expected .* got shape \(\)"),
        (lambda: Regression.from_gaussian(MEAN, STD, Y[:-1]), rf"y: expected shape \({N},\), one number per row"),
        (lambda: Regression.from_gaussian(MEAN, STD, Y[:, None]), "y: expected .* one number per row"),
        (lambda: Regression.from_gaussian(MEAN[:1].T, STD[:1].T, Y), "drop the last axis"),
        (lambda: Regression.from_gaussian([], []), "mean: expected .* at least one row"),
        (lambda: Regression.from_samples(np.zeros((0, 4))), "samples: expected .* at least one row"),
        (lambda: Regression.from_gaussian([[1.0, 2.0], [1.0]], [1.0, 1.0]), "rows that differ in length"),
        (lambda: make("gaussian", weights=np.ones(3)), "weights: expected .* one value per row"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(act, said):
    with pytest.raises(ShapeError, match=said):
        act()


def test_exactly_one_of_std_and_var():
    for given in ({}, {"std": STD, "var": STD}):
        with pytest.raises(UsageError, match="exactly one of std and var"):
            Regression.from_gaussian(MEAN, y=Y, **given)
    assert_same(Regression.from_gaussian(MEAN, var=STD**2, y=Y), make("gaussian"))
    with pytest.raises(TypeError, match="weigths"):
        make("gaussian", weigths=np.ones(N))


# ------------------------------------------------------------------------------------------- values
BAD = (np.nan, np.inf, -np.inf)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("array", ["mean", "std", "y", "samples", "quantiles"])
def test_what_is_not_finite_is_refused_and_located(array, value):
    arrays = {"mean": MEAN, "std": STD, "y": Y, "samples": DRAWS, "quantiles": QUANTILES}
    bad = arrays[array].copy()
    bad[(1, 7) if array in ("mean", "std", "samples") else (7, 1) if array == "quantiles" else 7] = value
    where = f"{array}: expected .* got {value} in row 7" + ("" if array == "y" else ", entry 1")
    act = {
        "samples": lambda: Regression.from_samples(bad, Y),
        "quantiles": lambda: Regression.from_quantiles(bad, LEVELS, Y),
    }.get(array, lambda: Regression.from_gaussian(**{"mean": MEAN, "std": STD, "y": Y} | {array: bad}))
    with pytest.raises(ValuesError, match=where):
        act()


@pytest.mark.parametrize("value", [0.0, -0.0, -1.0])
@pytest.mark.parametrize("what", ["std", "var"])
def test_spread_must_be_above_zero(what, value):
    spread = STD[0].copy()
    spread[[4, 9]] = value
    with pytest.raises(ValuesError, match=rf"{what}: expected numbers above 0, got {value} in row 4 \(2 such rows\)"):
        Regression.from_gaussian(MEAN[0], **{what: spread}, y=Y)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ([0.5, 0.1, 0.9], "increasing levels, got 0.1 after 0.5"),
        ([0.1, 0.1, 0.9], "increasing levels, got 0.1 after 0.1"),
        ([0.0, 0.5, 0.9], "between 0 and 1, got 0.0"),
        ([0.1, 0.5, 1.0], "between 0 and 1, got 1.0"),
        ([10, 50, 90], "between 0 and 1, got 10.0; divide percentages"),
        ([0.1, np.nan, 0.9], "between 0 and 1, got nan"),
        (["10%", "50%", "90%"], "real numbers"),
    ],
)
def test_levels_that_are_none_are_refused(levels, said):
    with pytest.raises(ValuesError, match=said):
        Regression.from_quantiles(QUANTILES, levels, Y)


@pytest.mark.parametrize(
    "bad", [MEAN + 0j, MEAN > 0, MEAN.astype(str), MEAN.astype(object)], ids=lambda x: str(x.dtype)
)
def test_what_is_no_real_number_is_refused(bad):
    with pytest.raises(ValuesError, match="mean: expected"):
        Regression.from_gaussian(bad, STD, Y)
    with pytest.raises(ValuesError, match="y: expected"):
        Regression.from_gaussian(MEAN, STD, bad[0])


# ------------------------------------------------------------------------------ other people's types
@pytest.mark.parametrize("dtype", [np.float16, np.float32, ">f4", ">f8", np.longdouble, np.int32, np.uint8])
@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_number_types_keep_their_values(kind, dtype):
    """The numbers of a narrow type, computed in float64, whatever the type."""
    a, s, y = (np.abs(np.round(8 * x)).astype(dtype) + np.ones(1, dtype) for x in (MEAN, STD, Y))
    if kind == "gaussian":
        narrow, wide = (Regression.from_gaussian(*x) for x in ((a, s, y), (t.astype(np.float64) for t in (a, s, y))))
    elif kind == "samples":
        narrow, wide = (Regression.from_samples(*x) for x in ((a, y), (t.astype(np.float64) for t in (a, y))))
    else:
        q = np.sort(a.T, axis=1)
        narrow, wide = (
            Regression.from_quantiles(x, LEVELS, z) for x, z in ((q, y), (q.astype(float), y.astype(float)))
        )
    assert_same(narrow, wide)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_tensors_of_any_precision(dtype):
    mean, std, y = (torch.tensor(x, dtype=dtype, requires_grad=True) for x in (MEAN, STD, Y))
    exact = [t.detach().double().numpy() for t in (mean, std, y)]
    made = Regression.from_gaussian(mean, std, y)
    assert (made.mean == exact[0]).all()
    assert (made.y == exact[2]).all()
    assert_same(made, Regression.from_gaussian(*exact))
    assert_same(Regression.from_samples(mean, y), Regression.from_samples(exact[0], exact[2]))


def test_lists_series_and_frames():
    made = make("gaussian")
    assert_same(Regression.from_gaussian(MEAN.tolist(), STD.tolist(), tuple(Y)), made)
    index = RNG.permutation(N)  # labels of rows say nothing: rows are taken in their order
    series = [pd.Series(x, index=index) for x in (MEAN[0], STD[0], Y)]
    assert_same(Regression.from_gaussian(*series), made.member(0))
    nullable = [x.astype("Float64") for x in series]
    assert_same(Regression.from_gaussian(*nullable), made.member(0))
    frame = pd.DataFrame(QUANTILES, columns=["q10", "q50", "q90"])
    assert_same(Regression.from_quantiles(frame, LEVELS, series[2]), make("quantiles"))
    nullable[2].iloc[4] = pd.NA
    with pytest.raises(ValuesError, match="y: expected finite numbers, got nan in row 4"):
        Regression.from_gaussian(*nullable)


@pytest.mark.parametrize("order", ["fortran", "strided", "reversed", "read-only"])
def test_memory_layout_changes_no_bit(order):
    def laid(x):
        made = {"fortran": np.asfortranarray(x), "strided": np.repeat(x, 2, axis=-1)[..., ::2],
                "reversed": x[..., ::-1].copy()[..., ::-1], "read-only": x.copy()}[order]  # fmt: skip
        made.setflags(write=order != "read-only")
        return made

    assert cal.measure(Regression.from_gaussian(laid(MEAN), laid(STD), laid(Y))) == cal.measure(make("gaussian"))
    assert cal.measure(Regression.from_samples(laid(DRAWS), laid(Y))) == cal.measure(make("samples"))
    assert cal.measure(Regression.from_quantiles(laid(QUANTILES), LEVELS, laid(Y))) == cal.measure(make("quantiles"))


def test_what_was_given_is_not_changed():
    given = [x.copy() for x in (MEAN, STD, Y, DRAWS, QUANTILES)]
    cal.evaluate(Regression.from_gaussian(*given[:3]))
    cal.evaluate(Regression.from_samples(given[3], given[2]))
    cal.evaluate(Regression.from_quantiles(given[4], LEVELS, given[2]))
    assert all((a == b).all() for a, b in zip(given, (MEAN, STD, Y, DRAWS, QUANTILES), strict=True))


# ------------------------------------------------------------------------------------- scikit-learn
@pytest.fixture(scope="module")
def data():
    X = RNG.normal(size=(60, 2))
    return X, X @ [1.0, -2.0] + 0.3 * RNG.normal(size=60)


@pytest.mark.parametrize(
    "estimator",
    [
        GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None),
        BayesianRidge(),
        make_pipeline(StandardScaler(), BayesianRidge()),
    ],
    ids=["process", "ridge", "pipeline"],
)
def test_sklearn_regressors_that_know_their_spread(data, estimator):
    X, y = data
    fitted = estimator.fit(X, y)
    mean, std = fitted.predict(X, return_std=True)
    made = Regression.from_sklearn(fitted, X, y, weights=np.arange(60) + 1.0)
    assert (made.mean[0] == mean).all()
    assert (made.std[0] == std).all()
    assert (made.kind, made.name) == (
        "gaussian",
        type(estimator[-1] if hasattr(estimator, "steps") else estimator).__name__,
    )
    assert (made.weights == np.arange(60) + 1.0).all()
    assert Regression.from_sklearn(fitted, X).y is None
    assert Regression.from_sklearn(fitted, X, name="mine").name == "mine"


def test_sklearn_regressors_without_a_spread_are_refused_with_a_way_out(data):
    X, y = data
    forest = RandomForestRegressor(4, random_state=0).fit(X, y)
    for estimator in (forest, make_pipeline(StandardScaler(), forest), object()):
        with pytest.raises(UsageError, match=r"return_std.*got.*from_quantiles.*from_samples"):
            Regression.from_sklearn(estimator, X, y)
    trees = Regression.from_samples([tree.predict(X) for tree in forest.estimators_], y)
    assert cal.measure(trees, "mse")["mse"] == pytest.approx(np.mean((forest.predict(X) - y) ** 2))


def test_a_regressor_of_several_targets_is_refused(data):
    X, y = data
    process = GaussianProcessRegressor(RBF() + WhiteKernel(0.1), optimizer=None).fit(X, np.stack([y, -y], axis=1))
    with pytest.raises(cal.CalibrantError, match="target"):
        Regression.from_sklearn(process, X)


# -------------------------------------------------------------------------------------------- torch
def tensors():
    return torch.tensor(MEAN), torch.tensor(STD), torch.tensor(Y)


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Independent(d, 1)], ids=["normal", "independent"])
@pytest.mark.parametrize("members", [False, True])
def test_torch_normals_are_taken_exactly(wrap, members):
    mean, std, y = tensors()
    given = (mean, std) if members else (mean[0], std[0])
    made = Regression.from_torch(wrap(Normal(*given)), y, name="net")
    assert (made.kind, made.members, made.name) == ("gaussian", M if members else 1, "net")
    assert_same(made, make("gaussian") if members else make("gaussian").member(0))


def test_a_scale_shared_by_all_rows_is_spread_over_them():
    mean, _, y = tensors()
    made = Regression.from_torch(Normal(mean[0], torch.tensor(2.0, dtype=torch.float64)), y)
    assert (made.std == 2.0).all()
    assert made.std.shape == (1, N)


def test_other_distributions_need_a_number_of_draws():
    mean, std, y = tensors()
    for distribution in (StudentT(4.0, mean[0], std[0]), LogNormal(mean[0], std[0])):
        with pytest.raises(UsageError, match=f"samples=S.*got {type(distribution).__name__}; pass samples=1000"):
            Regression.from_torch(distribution, y)
    with pytest.raises(UsageError, match="samples: expected an integer of at least 1"):
        Regression.from_torch(Normal(mean[0], std[0]), y, samples=0)


def test_draws_of_a_distribution():
    """The same seed gives the same draws, another one others; torch's own random state goes on as if nothing was."""
    mean, std, y = tensors()
    student = StudentT(4.0, mean[0], std[0])
    torch.manual_seed(1)
    undisturbed = torch.rand(5)
    torch.manual_seed(1)
    made = Regression.from_torch(student, y, samples=400, seed=5)
    assert (torch.rand(5) == undisturbed).all()
    assert (made.kind, made.samples.shape, made.n) == ("samples", (400, N), N)
    torch.rand(3)
    assert (Regression.from_torch(student, y, samples=400, seed=5).samples == made.samples).all()
    assert (Regression.from_torch(student, y, samples=400, seed=6).samples != made.samples).any()
    centre = np.median(made.samples, axis=0)
    assert np.abs((centre - MEAN[0]) / STD[0]).max() < 0.35  # 5 standard errors of a median of 400


def test_draws_of_one_joint_distribution_are_rows():
    """Independent over its N rows: an event of N numbers."""
    mean, std, y = tensors()
    plain = Regression.from_torch(Normal(mean[0], std[0]), y, samples=50)
    joint = Regression.from_torch(Independent(Normal(mean[0], std[0]), 1), y, samples=50)
    assert (plain.samples == joint.samples).all()


def test_draws_of_members_are_draws_of_their_mixture():
    """M members by S draws each: M·S draws of each row, a mixture with equal weights."""
    mean, std, y = tensors()
    made = Regression.from_torch(StudentT(40.0, mean, std), y, samples=300)
    assert made.samples.shape == (300 * M, N)
    exact = make("gaussian")
    assert cal.measure(made, "crps")["crps"] == pytest.approx(cal.measure(exact, "crps")["crps"], rel=0.05)


def test_outputs_of_one_number_a_row_are_not_taken_for_members():
    """A network's (N, 1): refused with a way out. M members of one row have the same shape, and are meant so."""
    mean, std, y = tensors()
    for outcome in (y, y[:, None]):
        with pytest.raises(ShapeError, match="drop the last axis"):
            Regression.from_torch(Independent(Normal(mean[0][:, None], std[0][:, None]), 1), outcome)
    one = Regression.from_torch(Normal(mean[:, :1], std[:, :1]), y[:1])
    assert (one.members, one.n) == (M, 1)


def test_what_is_no_distribution_or_no_number_of_draws_is_refused():
    mean, std, y = tensors()
    with pytest.raises(UsageError, match="a torch distribution, got Tensor"):
        Regression.from_torch(mean[0], y, samples=10)
    with pytest.raises(UsageError, match="samples: expected an integer of at least 1"):
        Regression.from_torch(Normal(mean[0], std[0]), y, samples=10.5)


# -------------------------------------------------------------------------------------------- arviz
@pytest.fixture(scope="module")
def arviz():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("arviz_base")


CHAINS = RNG.normal(size=(2, 5, N))


def test_arviz_draws_of_all_chains_one_after_another(arviz):
    tree = arviz.from_dict({"posterior_predictive": {"rain": CHAINS}, "observed_data": {"rain": Y}})
    made = Regression.from_arviz(tree)
    assert (made.kind, made.name, made.n) == ("samples", "rain", N)
    assert (made.samples == CHAINS.reshape(10, N)).all()
    assert (made.samples[5] == CHAINS[1, 0]).all()
    assert (made.y == Y).all()
    assert (Regression.from_arviz(tree, y=Y + 1).y == Y + 1).all()
    assert Regression.from_arviz(tree, name="model", weights=np.ones(N)).name == "model"


def test_arviz_dimensions_in_any_order(arviz):
    tree = arviz.from_dict({"posterior_predictive": {"rain": CHAINS}, "observed_data": {"rain": Y}})
    turned = {name: tree[name].to_dataset() for name in ("posterior_predictive", "observed_data")}
    turned["posterior_predictive"] = turned["posterior_predictive"].transpose("rain_dim_0", "draw", "chain")
    assert (Regression.from_arviz(turned).samples == CHAINS.reshape(10, N)).all()


def test_arviz_variables_are_named_where_there_are_several(arviz):
    tree = arviz.from_dict(
        {"posterior_predictive": {"rain": CHAINS, "wind": CHAINS + 1}, "observed_data": {"rain": Y, "wind": Y + 1}}
    )
    with pytest.raises(UsageError, match="with 'rain', 'wind'; write from_arviz\\(data, 'rain'\\)"):
        Regression.from_arviz(tree)
    with pytest.raises(UsageError, match="did you mean 'wind'"):
        Regression.from_arviz(tree, "wnd")
    made = Regression.from_arviz(tree, "wind")
    assert (made.name, made.y[0], made.samples[0, 0]) == ("wind", Y[0] + 1, CHAINS[0, 0, 0] + 1)


def test_arviz_observations_of_several_dimensions_are_rows_one_after_another(arviz):
    draws, observed = RNG.normal(size=(2, 5, 3, 4)), RNG.normal(size=(3, 4))
    made = Regression.from_arviz(
        arviz.from_dict({"posterior_predictive": {"y": draws}, "observed_data": {"y": observed}})
    )
    assert made.n == 12
    assert (made.y == observed.ravel()).all()
    assert (made.samples == draws.reshape(10, 12)).all()


def test_arviz_groups(arviz):
    tree = arviz.from_dict({"prior_predictive": {"y": CHAINS}})
    with pytest.raises(UsageError, match="expected a group 'posterior_predictive', got none"):
        Regression.from_arviz(tree)
    made = Regression.from_arviz(tree, group="prior_predictive")
    assert made.y is None
    assert made.samples.shape == (10, N)
    flat = {"posterior_predictive": tree["prior_predictive"].to_dataset().isel(chain=0, drop=True)}
    with pytest.raises(ShapeError, match="expected dimensions chain and draw, got draw, y_dim_0"):
        Regression.from_arviz(flat)


def test_arviz_wants_groups():
    for data in (CHAINS, [CHAINS], None):
        with pytest.raises(UsageError, match="expected a group 'posterior_predictive'"):
            Regression.from_arviz(data)


def test_arviz_dimensions_of_other_names(arviz):
    """PyMC has called what is observed `y_dim_0` and what is predicted `y_dim_2`."""
    tree = arviz.from_dict({"posterior_predictive": {"y": CHAINS}, "observed_data": {"y": Y}})
    groups = {name: tree[name].to_dataset() for name in ("posterior_predictive", "observed_data")}
    groups["posterior_predictive"] = groups["posterior_predictive"].rename(y_dim_0="y_dim_2")
    assert (Regression.from_arviz(groups).y == Y).all()


def test_arviz_observations_are_matched_by_their_coordinates(arviz):
    tree = arviz.from_dict(
        {"posterior_predictive": {"y": CHAINS}, "observed_data": {"y": Y}},
        coords={"day": np.arange(N)}, dims={"y": ["day"]},
    )  # fmt: skip
    groups = {name: tree[name].to_dataset() for name in ("posterior_predictive", "observed_data")}
    groups["observed_data"] = groups["observed_data"].isel(day=slice(None, None, -1))
    assert (Regression.from_arviz(groups).y == Y).all()
    groups["observed_data"] = groups["observed_data"].assign_coords(day=np.arange(N) + 1)
    with pytest.raises(ShapeError, match="observed_data: y: expected the dimensions of the draws"):
        Regression.from_arviz(groups)


# ------------------------------------------------------------------------- members, moments, slices
def test_a_member_alone():
    made = make("gaussian", member_names=["a", "b", "c"])
    for k in (0, 2, -1):
        alone = made.member(k)
        assert (alone.members, alone.member_names) == (1, (("a", "b", "c")[k],))
        assert_same(alone, Regression.from_gaussian(MEAN[k], STD[k], Y))
    assert (make("samples").member(0).samples == DRAWS).all()
    for outside in (3, -4):
        with pytest.raises(UsageError, match="a number from 0 to 2"):
            made.member(outside)
    with pytest.raises(ShapeError, match="member_names: expected 3 names"):
        make("gaussian", member_names=["a", "b"])


def test_moment_matched():
    """Mean and variance of the mixture, or of the samples (unbiased); the rest of what is known stays."""
    site, weights = np.arange(N) % 2, np.arange(N) + 1.0
    known = {"columns": {"site": site}, "weights": weights, "name": "net", "ids": np.arange(N) * 10}
    matched = make("gaussian", **known).moment_matched()
    assert matched.members == 1
    assert matched.mean[0] == pytest.approx(MEAN.mean(axis=0))
    assert matched.std[0] ** 2 == pytest.approx((STD**2 + MEAN**2).mean(axis=0) - MEAN.mean(axis=0) ** 2)
    assert (matched.name, matched.weights.tolist()) == ("net", weights.tolist())
    assert (matched.column("site") == site).all()
    assert (matched.column("ids") == np.arange(N) * 10).all()
    assert (matched.y == Y).all()
    drawn = make("samples").moment_matched()
    assert drawn.mean[0] == pytest.approx(DRAWS.mean(axis=0))
    assert drawn.std[0] == pytest.approx(DRAWS.std(axis=0, ddof=1))
    assert Regression.from_gaussian(MEAN, STD).moment_matched().y is None
    for other in (make("quantiles"), Regression.from_samples(DRAWS[:1], Y)):
        with pytest.raises(UsageError, match="Gaussian members, or at least two samples"):
            other.moment_matched()


MEANS = ("mse", "mae", "nll", "dss", "crps", "pinball", "interval_score", "pit", "picp", "width", "se_var_ratio")
"""Metrics that are means of a score of rows, so that the score of a row is the same in any company."""


@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_slices_masks_and_positions(kind):
    made = make(kind, weights=np.arange(N) + 1.0, columns={"site": np.arange(N) % 4}, ids=[f"r{k}" for k in range(N)])
    for index in (slice(2, 9), slice(None, None, -2), Y > 0, np.array([5, 5, 0]), [3], -1):
        part, rows = made[index], np.arange(N)[index if np.ndim(index) or isinstance(index, slice) else [index]]
        assert part.n == len(rows)
        assert (part.y == Y[rows]).all()
        assert (part.weights == rows + 1.0).all()
        assert part.column("ids").tolist() == [f"r{k}" for k in rows]
        specs = [spec for spec in cal.measure(part) if spec in MEANS]
        each, whole = cal.score_rows(part, specs), cal.score_rows(made, specs)
        assert all((each[spec] == whole[spec][rows]).all() for spec in specs)
    for empty in (slice(0, 0), Y > 1e9, np.array([N]), (slice(None), 0)):
        with pytest.raises(ShapeError, match="slicing"):
            made[empty]
    assert [row.n for row in made] == [1] * N


@pytest.mark.parametrize("kind", ["gaussian", "samples", "quantiles"])
def test_by_column_and_by_ranges(kind):
    made = make(kind, columns={"site": np.array(["b", "a", "c"])[np.arange(N) % 3]})
    parts = dict(made.by("site"))
    assert list(parts) == ["a", "b", "c"]
    assert (parts["a"].y == Y[1::3]).all()
    ranges = [part for _, part in made.by("y", 4)]
    assert sum(part.n for part in ranges) == N
    assert max(part.n for part in ranges) - min(part.n for part in ranges) <= 1
    edges = [(part.y.min(), part.y.max()) for part in ranges]
    assert all(high < low for (_, high), (low, _) in itertools.pairwise(edges))
    with pytest.raises(UsageError, match="did you mean 'site'"):
        next(made.by("sit"))
