"""Arrow values as plain ones: exact for machines, whatever DuckDB can return."""

from __future__ import annotations

import json
from typing import Any

import duckdb
import pytest

from jobsleuth.reports import jsonable, moment, records


def plain(expression: str) -> Any:
    """The one value of a query, as JSON would give it back."""
    table = duckdb.connect().sql(f"select {expression} as it").to_arrow_table()
    (value,) = next(iter(records(table, lambda ms: moment(ms, iso=True))))
    return json.loads(json.dumps(jsonable(value), allow_nan=False))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1),
        ("(select sum(i) from range(3) t(i))", 3),
        ("170141183460469231731687303715884105727::hugeint", 170141183460469231731687303715884105727),
        ("1.5::double", 1.5),
        ("1.50::decimal(10, 2)", "1.50"),
        ("'nan'::double", "nan"),
        ("'-inf'::double", "-inf"),
        ("true", True),
        ("null", None),
        ("'text'", "text"),
        ("'text'::blob", "text"),
        ("'a\\xFF\\x00'::blob", {"b64": "Yf8A"}),
        ("'x'::enum('x', 'y')", "x"),
        ("date '2020-02-29'", "2020-02-29"),
        ("time '12:00'", "12:00:00"),
        ("timestamp '2020-01-01 00:00:00.123456'", "2020-01-01T00:00:00.123Z"),
        ("timestamptz '2020-01-01 00:00:00Z'", "2020-01-01T00:00:00.000Z"),
        ("timestamp_s '1969-12-31 23:59:59'", "1969-12-31T23:59:59.000Z"),
        ("timestamp_ns '2020-01-01 00:00:00.123456789'", "2020-01-01T00:00:00.123Z"),
        ("timestamp 'infinity'", "9223372036854775 ms"),
        ("[1, null, 3]", [1, None, 3]),
        ("[]::integer[]", []),
        ("[[1], null, []]", [[1], None, []]),
        ("[1, 2]::integer[2]", [1, 2]),
        ("{'a': 1, 'b': [{'c': 'd'}]}", {"a": 1, "b": [{"c": "d"}]}),
        ("map {'k': 'v', 'l': null}", {"k": "v", "l": None}),
        ("map {'k': [timestamp '2020-01-01 00:00:00']}", {"k": ["2020-01-01T00:00:00.000Z"]}),
        ("null::map(varchar, integer)", None),
        ("null::struct(a integer)", None),
    ],
)
def test_values(expression: str, value: Any) -> None:
    """What SQL says a value is, JSON says too; nothing that JSON cannot hold remains."""
    assert plain(expression) == value


@pytest.mark.parametrize(
    "span",
    [
        "timestamp '2026-03-02 02:14:07.005' - timestamp '2026-03-02 02:14:07'",
        "timestamp '2026-03-02 02:14:07' - timestamp '2026-03-04 03:14:07.25'",
        "interval 1 day",
        "interval '14 months -2 days 27:00:01'",
        "interval '-1 month 1 day'",
        "interval 0 second",
        "interval 1 year",
        "interval '-0.000001 seconds'",
    ],
)
def test_the_difference_of_two_times_reads_as_duckdb_writes_it(span: str) -> None:
    """`finished_at - started_at` is what everybody asks for first."""
    assert plain(span) == plain(f"({span})::varchar")


def test_nested_values_keep_their_rows() -> None:
    """Lists, maps and structs with nulls and of unequal length, over several batches, stay with their row."""
    table = (
        duckdb.connect()
        .sql(
            "select i, case when i % 3 = 0 then null else range(i % 5) end as l, map {'i': i} as m, {'i': i} as s"
            " from range(10_000) t(i)"
        )
        .to_arrow_table()
    )
    for i, listed, mapped, struct in records(table, lambda ms: ms):
        assert listed == (None if i % 3 == 0 else list(range(i % 5)))
        assert (mapped, struct) == ({"i": i}, {"i": i})


@pytest.mark.parametrize(
    ("ms", "people", "machines"),
    [
        (0, "1970-01-01 00:00:00", "1970-01-01T00:00:00.000Z"),
        (1_772_417_647_001, "2026-03-02 02:14:07.001", "2026-03-02T02:14:07.001Z"),
        (-1, "1969-12-31 23:59:59.999", "1969-12-31T23:59:59.999Z"),
        (2**62, f"{2**62} ms", f"{2**62} ms"),
        (-(2**63), f"{-(2**63)} ms", f"{-(2**63)} ms"),
    ],
)
def test_moments(ms: int, people: str, machines: str) -> None:
    """Unix milliseconds by the calendar; a number that no calendar holds stays a number."""
    assert (moment(ms), moment(ms, iso=True)) == (people, machines)
