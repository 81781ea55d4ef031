"""Spec strings: what they parse to, their canonical text, and the errors that help."""

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calibrant as cal
from calibrant.registry import lookup
from calibrant.registry.lookup import parse, split
from calibrant.registry.metric import Spec

EXAMPLES = settings(max_examples=150, deadline=None, derandomize=True, database=None)
NAMES = st.text(st.characters(categories=["Lu", "Ll", "Nd"], include_characters="_-"), min_size=1, max_size=12)


@st.composite
def specs(draw):
    """A metric with some of its options at values that these allow."""
    metric = draw(st.sampled_from(list(cal.metrics().values())))
    given_options = {}
    for option in metric.options:
        if draw(st.booleans()):
            given_options[option.name] = draw(values_of(option))
    return metric, given_options


def values_of(option):
    if option.choices:
        return st.sampled_from(option.choices)
    if isinstance(option.default, bool):
        return st.booleans()
    low, high = (None if math.isinf(x) else x for x in (option.at_least, option.at_most))
    if isinstance(option.default, int):
        return st.integers(None if low is None else int(low), 10**6 if high is None else int(high))
    if isinstance(option.default, float):
        return st.floats(low, high, allow_nan=False, allow_infinity=False)
    return NAMES


def written(value):
    return str(value).lower() if isinstance(value, bool) else repr(value) if isinstance(value, float) else str(value)


@EXAMPLES
@given(specs(), st.randoms(), st.sampled_from(["", " ", "  "]))
def test_order_spaces_and_defaults_do_not_matter(drawn, random, space):
    metric, given_options = drawn
    items = [f"{name}{space}={space}{written(value)}" for name, value in given_options.items()]
    random.shuffle(items)
    spec = parse(f"{space}{metric.name}{space}({space}{f'{space},{space}'.join(items)}{space}){space}")
    assert spec.metric is metric
    assert spec.options == {o.name: given_options.get(o.name, o.default) for o in metric.options}
    assert spec.text == Spec.make(metric, **given_options).text
    assert " " not in spec.text.replace(str(given_options.get("of", "")), "")


@EXAMPLES
@given(specs())
def test_the_canonical_text_parses_to_the_same_spec(drawn):
    """Otherwise two specs would share one key of a result, or a stored key would mean another metric."""
    metric, given_options = drawn
    spec = Spec.make(metric, **given_options)
    assert spec.options == {o.name: given_options.get(o.name, o.default) for o in metric.options}
    again = parse(spec.text)
    assert (again.metric, again.options, again.text) == (spec.metric, spec.options, spec.text)


@EXAMPLES
@given(st.lists(specs(), min_size=1, max_size=5))
def test_a_list_is_split_at_commas_outside_brackets(drawn):
    texts = [Spec.make(metric, **options).text for metric, options in drawn]
    assert [part.strip() for part in split(", ".join(texts))] == texts


@EXAMPLES
@given(st.text(max_size=30))
def test_any_text_is_a_spec_or_a_usage_error(text):
    with contextlib.suppress(cal.CalibrantError):
        assert parse(text).metric.name in cal.metrics()


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("ece", "ece"),
        (" ece ( bins = 15 ) ", "ece"),
        ("ece()", "ece"),
        ("ece(norm=l2,bins=10)", "ece(bins=10,norm=l2)"),
        ("ece(of=cat)", "ece(of=cat)"),
        ("brier(per_class=TRUE)", "brier(per_class=true)"),
        ("brier(per_class=false)", "brier"),
        ("rbs(p=1)", "rbs(p=1)"),
        ("rbs(p=2.0)", "rbs"),
        ("nll(clip=0.001)", "nll(clip=0.001)"),
        ("top_k(k=1)", "top_k(k=1)"),
    ],
)
def test_canonical_texts(text, canonical):
    assert parse(text).text == canonical


def test_close_numbers_stay_apart():
    """Six digits are not all digits: each of these is a metric of its own."""
    texts = ["nll(clip=0.12345671)", "nll(clip=0.12345672)"]
    predictions = cal.Classification.from_probs([0.01, 0.02], [1, 1])
    a, b = cal.measure(predictions, texts).values()
    assert a > b


@pytest.mark.parametrize(
    ("text", "hints"),
    [
        ("eec", ["did you mean 'ece'?"]),
        ("ECE", ["known metric", "did you mean 'ece'?"]),
        ("accurracy", ["did you mean 'accuracy'?"]),
        ("zzzz", ["choose from", "accuracy", "ece"]),
        ("ece(bin=10)", ["bins, binning, norm, of", "did you mean 'bins'?"]),
        ("accuracy(k=1)", ["no options", "write accuracy"]),
        ("ece(bins)", ["option=value", "ece(bins=…)"]),
        ("ece(bins=0)", ["an integer from 1 to 100000", "the default is 15"]),
        ("ece(bins=ten)", ["an integer"]),
        ("ece(bins=1.5)", ["an integer"]),
        ("ece(norm=l3)", ["l1 or l2 or max"]),
        ("nll(clip=2)", ["a number from 0 to 1"]),
        ("nll(clip=nan)", ["a number"]),
        ("brier(per_class=yes)", ["true or false"]),
        ("ece(bins=10", ["NAME(option=value,…)"]),
        ("ece bins=10", ["NAME(option=value,…)"]),
        ("", ["NAME or NAME(option=value,…)"]),
        ("ece(bins=10,bins=20)", ["bins"]),
    ],
)
def test_errors_say_what_to_do(text, hints):
    with pytest.raises(cal.CalibrantError) as caught:
        parse(text)
    assert all(hint in str(caught.value) for hint in hints), str(caught.value)
    assert caught.value.exit_code == 2


def test_reports_have_the_cheap_metrics():
    chosen = {spec.metric.name for spec in lookup.report_specs()}
    assert chosen == {name for name, m in cal.metrics().items() if m.in_report and m.cost in ("linear", "sort")}
    assert {"accuracy", "nll", "brier", "ece"} <= chosen
