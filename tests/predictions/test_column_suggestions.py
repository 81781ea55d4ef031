"""Columns under other names: suggested options read the file, and outcomes are not overlooked in silence."""

import pytest

import calibrant as cal
from calibrant.errors import FileError
from calibrant.predictions.files.assemble import suggest_options
from calibrant.predictions.files.read import read_source
from calibrant.predictions.files.sources import Source
from calibrant.predictions.files.tables import ColumnOptions

TABLES = {
    "--labels label --probs 'p_*'": "p_cat,p_dog,label\n0.8,0.2,cat\n0.3,0.7,dog\n",
    "--labels Target --logits 'Logit_*'": "Logit_0,Logit_1,Target\n1.5,0,0\n-1,2,1\n",
    "--labels label --prob probability": "probability,label\n0.8,1\n0.3,0\n",
    "--confidence conf --correct is_correct": "conf,is_correct\n0.8,1\n0.3,0\n",
    "--y target --mean mu --std sigma": "mu,sigma,target\n0.5,1,0.7\n0.1,1,0.2\n",
    "--y actual --mean forecast --var variance": "forecast,variance,actual\n0.5,1,0.7\n0.1,1,0.2\n",
}


@pytest.mark.parametrize("options", TABLES)
def test_what_is_suggested_reads_the_table(options, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLES[options])
    with pytest.raises(FileError) as refused:
        cal.read(path)
    assert refused.value.hint == f"name the columns, perhaps {options}"
    words = options.replace("'", "").split()
    columns = {words[k].removeprefix("--"): words[k + 1] for k in range(0, len(words), 2)}
    assert cal.read(path, columns=columns).n == 2


@pytest.mark.parametrize("names", [[], ["a", "b"], ["p_only", "age"], ["mu", "sigma"], ["\x1b[31m_a", "\x1b[31m_b"]])
def test_nothing_is_suggested_where_too_little_is_known(names):
    assert suggest_options(names) == ""


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("probs_a,probs_b,label", "FILE::labels=label"),
        ("mean,std,target", "FILE::y=target"),
        ("probs_a,probs_b,age", None),
        ("probs_a,probs_b,labels,target", None),
    ],
)
def test_a_column_that_probably_holds_the_outcomes_is_named(header, says, tmp_path):
    path = tmp_path / "table.csv"
    values = ["0.5"] * 2 + ["1"] * (header.count(",") - 1)
    path.write_text(f"{header}\n{','.join(values)}\n")
    notes = [note.message for note in read_source(Source.parse(str(path)), ColumnOptions()).notes()]
    assert [says in note for note in notes] == [True] * (says is not None)
