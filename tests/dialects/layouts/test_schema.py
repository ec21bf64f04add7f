"""The JSON Schema for editors and the reader of layouts accept the same files."""

from __future__ import annotations

import copy
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobsleuth.dialects.description import COLUMNS, STATES, UNITS
from jobsleuth.dialects.layouts.file import POLICY_SECTIONS, SECTIONS, load_layouts
from jobsleuth.errors import UsageError

ROOT = Path(__file__).parents[3]
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "docs/layout-1.schema.json").read_text(encoding="utf-8")))
BASES: list[dict[str, Any]] = [
    tomllib.loads((ROOT / "fixtures/lists/layouts.toml").read_text(encoding="utf-8")),
    {"lists": {"waiting": ["a:{queue}"], "processing": ["a:{queue}:{worker}"], "delayed": [], "seen": ["s"]}},
    {
        "layout": [
            {
                "name": "inside",
                "namespace": "n",
                "queue": "q",
                "ids": ["id", "nr"],
                "lock": "l:{id...}",
                "record": {"type": "inside"},
                "fields": {"name": "n", "error": {"field": "e"}, "created_at": {"field": "c", "unit": "iso"}},
                "structure": [
                    {"key": "z", "type": "zset", "score": "s", "state": "delayed", "name": "due"},
                    {"key": "l:{namespace}", "type": "list"},
                ],
            }
        ],
        "suppress": [{"check": "MB001"}],
    },
    *(tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted((ROOT / "docs/layouts").glob("*.toml"))),
]
PARTS = (
    "{queue}",
    "{id}",
    "{worker}",
    "{namespace}",
    "{queue...}",
    "{id...}",
    "{rest}",
    "{{",
    "}}",
    "{",
    "}",
    ":",
    "a",
    "{x}",
    "\n",
)
KEYS = ["name", "namespace", "queue", "structure", "record", "fields", "ids", "lock", "key", "type", "state", "score"]
KEYS += ["since", "member"]
KEYS += ["field", "unit", "waiting", "processing", "delayed", "seen"]
WORDS = sorted(
    {*KEYS, *SECTIONS, *POLICY_SECTIONS, *COLUMNS, *STATES, *UNITS, "iso", "hash", "json", "field", "inside"}
)
WORDS += ["list", "zset", "set", "string"]
names = st.sampled_from([*WORDS, "", "other", "é"])
texts = st.one_of(names, st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(texts, st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, [], {}])),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=4,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """(container, key) of everything in it, depth first."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in inner:
        yield value, key
        yield from places(member)


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    """A file that is in order, with up to three things in it replaced, taken away or added."""
    document = copy.deepcopy(draw(st.sampled_from(BASES)))
    for _ in range(draw(st.integers(0, 3))):
        found = [*places(document)][::-1]
        container, key = draw(st.sampled_from(found)) if found else (document, "layout")
        kind = draw(st.sampled_from(["replace", "replace", "remove", "add"]))
        if kind == "remove" and found:
            del container[key]
        elif kind == "add" and isinstance(container, dict):
            container[draw(names)] = draw(values)
        elif kind == "add":
            container.append(draw(values))
        else:
            container[key] = draw(
                texts
                if isinstance(container.get(key) if isinstance(container, dict) else "", str) and draw(st.booleans())
                else values
            )
    return document


def toml(value: Any) -> str:
    """The value in TOML, on one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    return json.dumps(value)


def pattern(key: str) -> dict[str, Any]:
    return {"layout": [{"name": "x", "structure": [{"key": key, "type": "list"}]}]}


def member(text: str, record: dict[str, Any] | None = None, **structure: str) -> dict[str, Any]:
    form = {"name": "x", "structure": [{"key": "x:{queue}", "type": "list", "member": text, **structure}]}
    return {"layout": [form | ({} if record is None else {"record": record})]}


@settings(max_examples=1500, derandomize=True, deadline=None, database=None, suppress_health_check=[*HealthCheck])
@given(document=documents() | texts.map(pattern))
@example(document=pattern("{{queue}}{queue}"))
@example(document=pattern("{queue}{{{queue...}"))
@example(document=pattern("{queue}:\n"))
@example(document=pattern("{{queue}"))
@example(document=pattern(":{queue}:"))
@example(document=pattern("{queue}}}"))
@example(document=pattern("a{queue"))
@example(document=pattern("a{}"))
@example(document=member("{id}:{rest}", state="waiting", record={"type": "field", "key": "x"}))
@example(document=member("{id}:{rest}", state="waiting"))
@example(document=member("{id}:{rest}"))
@example(document=member("{id}{rest}"))
@example(document=member("{rest}:"))
@example(document=member("{id}:{id}"))
@example(document=member("{id}:{queue}"))
@example(document=member("{id}:", record={"type": "field", "key": ["x", "x:{id}"]}))
@example(document=member("{id}:", record={"type": "hash", "key": ["x:{id}", "y:{id...}"]}))
@example(document=member("{id}:", record={"type": "json", "key": []}))
@example(document=member("{id}:", type="zset", since="s", state="failed", record={"type": "field", "key": "x"}))
@example(document=member("{id}:", type="zset", since="s", score="s", state="failed"))
@example(document=member("{id}:", type="zset", since="s"))
@example(document=member("{id}:", type="zset", since="s", state="waiting"))
def test_schema_and_reader_agree(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever stands in the file, both take it or both refuse it. What a schema cannot say is that two layouts share a
    name."""
    file = tmp_path_factory.getbasetemp() / "schema.toml"
    file.write_text(
        "".join(f"{json.dumps(key)} = {toml(value)}\n" for key, value in document.items()), encoding="utf-8"
    )
    assert tomllib.loads(file.read_text(encoding="utf-8")) == document
    fault = next(iter(SCHEMA.iter_errors(document)), None)
    try:
        load_layouts(file)
        refused = None
    except UsageError as error:
        refused = str(error)
    if refused is not None and "two layouts are called" in refused:
        return
    assert (fault is None) == (refused is None), fault.message if fault else refused
