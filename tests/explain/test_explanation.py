"""The `Explanation` object: its document, its formats, and what it refuses."""

from __future__ import annotations

import copy
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, get_args

import numpy as np
import pytest
from trijoin_sql.rewriter.sql.statement import EXPLAIN_FORMATS

from trijoin_sql.cli import Form
from trijoin_sql.errors import InvalidSettingError, PlanError
from trijoin_sql.explain import FORMS, Explanation

from ..rewriter.goldens import queries
from .samples import BI, CYCLIC, NOTHING, SAMPLES, made

FORMATS = ("__str__", "to_json", "to_mermaid", "to_html", "_repr_html_")


@pytest.mark.parametrize("name", SAMPLES)
def test_document_comes_back(name: str) -> None:
    explanation = Explanation(SAMPLES[name])
    assert explanation.to_dict() == SAMPLES[name]
    assert json.loads(explanation.to_json()) == SAMPLES[name]


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("name", SAMPLES)
def test_same_document_same_text(name: str, form: str) -> None:
    one, other = Explanation(SAMPLES[name]), Explanation(copy.deepcopy(SAMPLES[name]))
    assert getattr(one, form)() == getattr(other, form)()


def test_text_does_not_depend_on_the_hash_seed() -> None:
    script = (
        "import json, sys; from trijoin_sql.explain import Explanation; ex = Explanation(json.load(sys.stdin)); "
        "sys.stdout.reconfigure(encoding='utf-8'); print(ex, ex.to_mermaid(), ex.to_html())"
    )
    document = json.dumps(SAMPLES["multi"]).encode()
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            input=document,
            capture_output=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_imports_neither_spark_nor_sqlglot() -> None:
    script = (
        "import sys, trijoin_sql.explain as e; e.Explanation({'version': 1, 'sql': '', 'stages': [], 'groups': [], "
        "'advice': []}).to_html(); print(sorted({'pyspark', 'sqlglot', 'networkx', 'pandas'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


def test_is_immutable_and_a_value() -> None:
    document = copy.deepcopy(CYCLIC)
    explanation = Explanation(document)
    document["sql"] = explanation.to_dict()["sql"] = "changed"
    assert explanation == Explanation(CYCLIC) != Explanation(BI)
    assert len({explanation, Explanation(CYCLIC)}) == 1
    assert explanation != "text"
    assert pickle.loads(pickle.dumps(explanation)) == explanation
    assert copy.copy(explanation) == explanation
    assert repr(explanation) == "<Explanation: TriJoin>"
    with pytest.raises(AttributeError, match="immutable"):
        explanation.sql = "x"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="immutable"):
        del explanation._json


def test_takes_tuples_and_numpy_numbers_and_drops_what_json_cannot_say() -> None:
    document: dict[str, Any] = copy.deepcopy(BI)
    cost = document["groups"][0]["decision"]["alternatives"][0]["cost"]
    cost |= {"network": float("inf"), "memory": np.float64(2.5), "cpu": np.int64(7)}
    document["advice"] = ("one", "two")
    explanation = Explanation(document)
    again = explanation.to_dict()
    assert again["advice"] == ["one", "two"]
    assert json.loads(explanation.to_json(), parse_constant=pytest.fail) == again
    assert cost.keys() == {"network", "memory", "cpu", "stages"}
    read: Any = again
    assert read["groups"][0]["decision"]["alternatives"][0]["cost"] == {
        "network": None, "memory": 2.5, "cpu": 7, "stages": 1
    }  # fmt: skip
    assert "-" in str(explanation)
    explanation.to_html()


@pytest.mark.parametrize("key", ["version", "sql", "stages", "groups", "advice"])
def test_lacking_key_is_named(key: str) -> None:
    document = {name: value for name, value in NOTHING.items() if name != key}
    with pytest.raises(PlanError, match=f"lacks the key '{key}'"):
        Explanation(document)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("sql",), 3), (("stages",), {}), (("groups", 0, "graph"), []), (("groups", 0, "decision", "node"), None)],
)
def test_wrong_type_is_named(path: tuple[str | int, ...], value: object) -> None:
    document: Any = copy.deepcopy(BI)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(PlanError, match="not well formed: expected"):
        Explanation(document)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("groups", 0, "decision", "node"), None, "expected text at groups[0].decision.node, found NoneType"),
        (("groups", 0, "decision", "units"), "two", "expected a whole number at groups[0].decision.units, found str"),
        (("stages", 0), "parse", "expected an object at stages[0], found str"),
    ],
)
def test_the_place_of_a_mistake_is_named(path: tuple[str | int, ...], value: object, words: str) -> None:
    document: Any = copy.deepcopy(BI)
    place = document
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(PlanError, match=re.escape(words)):
        Explanation(document)


def test_a_document_of_another_version_is_read() -> None:
    """An older one lacks keys, or has null for them; a newer one has further keys, and words for kinds."""
    document: Any = copy.deepcopy(BI)
    (group,) = document["groups"]
    group["decision"] |= {"options": None, "rates": None, "alternatives": None, "colour": "green"}
    group["graph"]["edges"][0]["predicates"][0]["kind"] = "near"
    assert "•  near" in str(Explanation(document))


def test_value_without_a_json_form() -> None:
    with pytest.raises(PlanError, match="cannot hold a object"):
        Explanation({**NOTHING, "extra": object()})


@pytest.mark.parametrize(
    ("suffix", "start"),
    [
        (".html", "<!doctype html>"), (".htm", "<!doctype html>"), (".json", "{"), (".mmd", "flowchart"),
        (".mermaid", "flowchart"), (".txt", "TriJoin SQL"), (".HTML", "<!doc"),
    ],
)  # fmt: skip
def test_save_by_suffix(tmp_path: Any, suffix: str, start: str) -> None:
    path = Explanation(CYCLIC).save(tmp_path / f"plan{suffix}")
    content = path.read_text(encoding="utf-8")
    assert content.startswith(start)
    assert content.endswith("\n")
    assert not content.endswith("\n\n")


def test_save_names_the_suffixes_that_it_knows(tmp_path: Any) -> None:
    with pytest.raises(InvalidSettingError, match=r"\.html.*\.json.*\.txt"):
        Explanation(CYCLIC).save(str(tmp_path / "plan.pdf"))
    assert list(tmp_path.iterdir()) == []


def test_all_who_name_forms_name_the_same() -> None:
    """One table has them; SQL and the command line have words for each."""
    assert list(get_args(Form)) == [*FORMS, "lineage"]  # which is read off a file
    assert {word.lower() for word in EXPLAIN_FORMATS} == {*FORMS} - {"text"} | {"formatted"}


def keys(value: Any, at: str = "") -> Iterator[str]:
    """Yield the paths of a document's keys."""
    match value:
        case dict():
            for key, below in value.items():
                yield f"{at}.{key}"
                yield from keys(below, f"{at}.{key}")
        case list():
            for below in value:
                yield from keys(below, f"{at}[]")


def test_the_samples_have_nothing_that_the_product_does_not_make() -> None:
    """They were of stages that there are no more, and nobody noticed."""
    documents = [made(query) for query in queries()]
    real = {key for document in documents for key in keys(document)}
    stages = {stage["name"] for document in documents for stage in document["stages"]}
    for name, sample in SAMPLES.items():
        odd = {"</title>", "&"} if name == "odd" else set()
        assert {key for key in keys(sample) if ".live" not in key} <= real, name
        assert {stage["name"] for stage in sample["stages"]} - odd <= stages, name
