"""Layouts as a file describes them: read, claimed, judged; every mistake named with its line."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import jobsleuth
from jobsleuth.checks import load_policy
from jobsleuth.dialects.description import COLUMNS, STATES, Pattern
from jobsleuth.dialects.layouts.file import POLICY_SECTIONS, load_layouts, read_layouts
from jobsleuth.errors import DialectError, UsageError
from jobsleuth.pipeline.described import explain_layouts
from jobsleuth.sources import ReadOptions
from tests.dialects.bullmq.conftest import Writer

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "fixtures/lists/plain-7.0.15"
DESCRIPTION = ROOT / "fixtures/lists/layouts.toml"
TOLD: dict[str, tuple[str, Any]] = json.loads((FIXTURE / "expect/server.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> jobsleuth.Case:
    options = jobsleuth.AnalyzeOptions(described=load_layouts(DESCRIPTION))
    return jobsleuth.analyze(FIXTURE / "evidence.rdb", tmp_path_factory.mktemp("case") / "c", options)


def test_jobs_in_hashes(case: jobsleuth.Case) -> None:
    """Fields of HGETALL in their columns, states from the lists, an id without a hash, a hash in no list."""
    rows = case.query(
        "select job_id, state, has_record, name, payload, attempts, epoch_ms(created_at) as made, key from jobs"
        " where namespace = 'shop' order by job_id"
    ).to_pylist()
    for row, number in zip(rows[:4], "1234", strict=True):
        told = TOLD[f"shop:job:{number}"][1]
        assert (row["job_id"], row["name"], row["payload"].decode()) == (number, told["kind"], told["body"])
        assert (row["attempts"], row["made"]) == (int(told["tries"]), int(told["made"]) * 1000)
    assert [(r["job_id"], r["state"], r["has_record"], r["key"]) for r in rows] == [
        ("1", "waiting", True, "shop:job:1"),
        ("2", "active", True, "shop:job:2"),
        ("3", "active", True, "shop:job:3"),
        ("4", "unknown", True, "shop:job:4"),
        ("9", "waiting", False, "shop:job:9"),
    ]


def test_jobs_in_json_strings(case: jobsleuth.Case) -> None:
    """GET's value is the payload; due times are the scores of ZRANGE; braces in keys are written twice."""
    rows = case.query(
        "select job_id, queue, state, name, payload, epoch_ms(scheduled_at) as due, epoch_ms(created_at) as made"
        " from jobs where namespace = 'clock'"
    ).to_pylist()
    due = dict(TOLD["clock:due"][1])
    assert sorted((r["job_id"], r["due"]) for r in rows) == sorted((name, int(ms)) for name, ms in due.items())
    assert all(r["payload"].decode() == TOLD[f"clock:{{{r['job_id']}}}"][1] for r in rows)
    assert {(r["queue"], r["state"], r["name"], r["made"]) for r in rows} == {
        ("ticks", "delayed", "tick", 1_796_040_000_000)
    }


def test_locks(case: jobsleuth.Case) -> None:
    """Token and expiry; a lock whose key names no queue is of the queue that holds the id."""
    rows = case.query("select queue, job_id, worker_id, valid, kind from workers").to_pylist()
    assert rows == [{"queue": "eu", "job_id": "2", "worker_id": "token-2", "valid": True, "kind": "lock"}]


def test_generic_checks_judge_it(case: jobsleuth.Case) -> None:
    """Ghost, orphan, overdue and the missing lock, each once."""
    rows = case.query("select check_id, queue, job_id, severity from findings where dialect = 'layouts'").to_pylist()
    assert sorted((r["check_id"], r["queue"], r["job_id"], r["severity"]) for r in rows) == [
        ("LV004", "ticks", "b", "warning"),
        ("MB001", "eu", "9", "error"),
        ("MB002", "eu", "4", "error"),
        ("PL003", "eu", "3", "error"),
    ]


def test_policy_and_layouts_share_a_file(tmp_path: Path) -> None:
    """Either reader passes over what is the other's."""
    file = tmp_path / "jobsleuth.toml"
    file.write_text("[checks]\ndisable = ['PL001']\n" + DESCRIPTION.read_text(encoding="utf-8"), encoding="utf-8")
    assert load_policy(file).off == {"PL001"}
    example = re.search(r"```toml\n(.*?)```", load_policy.__doc__ or "", re.DOTALL)
    assert example and set(tomllib.loads(example[1])) == set(POLICY_SECTIONS)
    assert [layout.name for layout in load_layouts(file).layouts] == ["shop", "clock"]


GOOD = '[[layout]]\nname = "x"\n[[layout.structure]]\nkey = "x:{queue}"\ntype = "list"\nstate = "waiting"\n'

ZSET = GOOD.replace('"list"', '"zset"').replace("waiting", "failed")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[[layout]]\nnaem = "x"\n', "line 2: layout: there is no key naem"),
        ('[[layout]]\nname = "x"\n', "line 1: the layout has no structure"),
        (GOOD.replace("x:{queue}", "x:{queu}"), "line 4: x:{queu}: there is no part {queu}"),
        (GOOD.replace("x:{queue}", "x:{queue"), "line 4: x:{queue: a brace is not closed"),
        (GOOD.replace("x:{queue}", "{queue}:{queue}"), "line 4: {queue}:{queue}: the part {queue} comes twice"),
        (GOOD.replace("x:{queue}", "{queue}"), "line 4: {queue}: the pattern fits every key"),
        (GOOD.replace('"list"', '"lst"'), "line 5: type cannot be lst"),
        (GOOD.replace("waiting", "sleeping"), "line 6: state cannot be sleeping"),
        (GOOD + 'score = "s"\n', "line 7: a list has no scores"),
        (GOOD + '[layout.fields]\nnmae = "n"\n', "line 8: there is no field nmae"),
        (GOOD + '[layout.fields]\ncreated_at = "n"\n', "line 8: created_at has no unit"),
        (GOOD + '[layout.fields]\ncreated_at = { field = "n", unit = "h" }\n', "line 8: unit cannot be h"),
        (GOOD + '[layout.fields]\nname = { field = "n", unit = "s" }\n', "line 8: name is no time and has no unit"),
        (GOOD + '[layout.record]\ntype = "hash"\nkey = "job"\n', "line 9: the record's key has no part {id}"),
        (GOOD + '[layout.record]\ntype = "hash"\n', "line 7: key is missing or no text"),
        (GOOD + GOOD, "line 8: two layouts are called x"),
        ('[lists]\nwaiting = ["jobs"]\nlater = []\n', "line 3: lists: there is no key later"),
        ("layout = 3\n", "line 1: layout is no list of tables"),
        ("[[layout\n", "the file is no TOML"),
        (GOOD + GOOD.replace("[[layout", "[[layouts"), "line 7: there is no section layouts"),
        ('# mine\n[list]\nwaiting = ["jobs"]\n', "line 2: there is no section list"),
        (GOOD + "[list.more]\n", "line 7: there is no section list"),
        ('[lists]\nwaiting = [\n  "a:{queue}",\n  # x = [\n  "b:{queu}",\n]\n', "line 5: b:{queu}: there is no part"),
        ('[lists]\nwaiting = ["""\na""", \'\'\'b\n{c\'\'\', "d"]\n', "line 3: b\\n{c: a brace is not closed"),
        ('lists.waiting = [\n"a",\n3]\n', "line 3: waiting is missing or no text"),
        (GOOD + '[layout.fields]\ncreated_at = { field = "n",\n unit = "h" }\n', "the file is no TOML"),
        (GOOD + 'name = """\nx = y\n"""\nscore = "s"\n', "line 10: a list has no scores"),
        ('[[layout]]\n"n\\u0061me" = ""\n', "line 2: name is missing or no text"),
        ('layout = [{ name = "x",\tstructure = [\n{ key = "a", type = "list" },\n{ key = "b" }] }]\n', "line 3: type"),
        (GOOD + '[layout.record]\ntype = "inside"\nkey = "a:{id}"\n', "line 9: a record inside has no key"),
        (GOOD + "[layout.record]\n", "line 7: type cannot be None"),
        (
            GOOD + '[layout.record]\ntype = "field"\nkey = "j:{id}"\n',
            "line 9: the key of a hash of jobs has no part {id}",
        ),
        (GOOD + '[layout.record]\ntype = "field"\nkey = []\n', "line 9: key is missing or no text"),
        (
            GOOD + '[layout.record]\ntype = "hash"\nkey = [\n"j:{id}",\n"k:{queue}"]\n',
            "line 11: the record's key has no",
        ),
        (GOOD + 'member = "{id}:{rest}"\n', "line 7: the members are the jobs themselves"),
        (GOOD + 'member = "x{rest}"\n', "line 7: the member has no part {id}"),
        (GOOD + 'member = "{id}:{queue}"\n', "line 7: {id}:{queue}: there is no part {queue}"),
        (GOOD + 'member = "{id}"\n', "line 7: {id}: the pattern fits every member"),
        (GOOD + 'since = "s"\n', "line 7: a list has no scores"),
        (GOOD.replace('"list"', '"zset"') + 'since = "s"\n', "line 7: since needs a state that began"),
        (ZSET + 'since = "h"\n', "line 7: since cannot be h"),
        (ZSET + 'score = "s"\nsince = "s"\n', "line 8: scores are due times or since when, not both"),
        ("a = " + "[" * 5000 + "]" * 5000, "the file is no TOML that can be read"),
    ],
)
def test_mistakes_are_named_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    """File, line and what is wrong, in one sentence."""
    file = tmp_path / "l.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        load_layouts(file)
    assert str(caught.value).startswith(f"{file}: {message}")


def test_wrong_unit_is_told_by_the_years_it_gives(tmp_path: Path) -> None:
    """Seconds taken for milliseconds lie in 1970: the line of the field is named and no case is left behind."""
    file = tmp_path / "l.toml"
    text = DESCRIPTION.read_text(encoding="utf-8")
    file.write_text(text.replace('"made", unit = "s"', '"made", unit = "ms"'), encoding="utf-8")
    line = next(n for n, row in enumerate(text.splitlines(), 1) if '"made", unit = "s"' in row)
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    with pytest.raises(UsageError, match=rf"line {line}: 4 of 4 values of created_at are no times from 2000 to 2100"):
        jobsleuth.analyze(FIXTURE / "evidence.rdb", tmp_path / "c", options)
    assert not (tmp_path / "c").exists()


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_wrong_unit_of_scores_is_told_at_its_structure(unit: str, tmp_path: Path) -> None:
    """Two zsets of one state, in seconds and in milliseconds: the line of the wrong `score` is named, however few."""
    file = tmp_path / "l.toml"
    zset = '[[layout.structure]]\nkey = "clock:{}"\ntype = "zset"\nstate = "delayed"\nscore = "{}"\n'
    text = '[[layout]]\nname = "clock"\nqueue = "ticks"\n' + zset.format("s", unit) + zset.format("ms", unit)
    file.write_text(text, encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"clock:s", {b"%d" % n: 1_700_000_000.0 + n for n in range(5 if unit == "ms" else 50)})
    rdb.put(b"clock:ms", {b"m%d" % n: 1_700_000_000_000.0 + n for n in range(50 if unit == "ms" else 5)})
    rdb.read()
    line = 8 if unit == "ms" else 13
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    with pytest.raises(UsageError, match=rf"line {line}: 5 of 5 values of delayed are .* in the unit {unit}"):
        jobsleuth.analyze(rdb.path, tmp_path / "c", options)


def test_wrong_unit_in_one_key(tmp_path: Path) -> None:
    """One pattern, two keys: many times of one key are not hidden by those of another; one odd score stops nothing."""
    file = tmp_path / "l.toml"
    structure = '[[layout.structure]]\nkey = "due:{queue}"\ntype = "zset"\nstate = "delayed"\nscore = "ms"\n'
    file.write_text('[[layout]]\nname = "d"\n' + structure, encoding="utf-8")
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"due:a", {b"%d" % n: 1_700_000_000_000.0 + n for n in range(50)})
    rdb.put(b"due:b", {b"now": 0.5})
    rdb.read()
    jobsleuth.analyze(rdb.path, tmp_path / "few", options)
    rdb.put(b"due:c", {b"%d" % n: 1_700_000_000.0 + n for n in range(12)})
    rdb.read()
    with pytest.raises(UsageError, match=r"line 7: 12 of 12 values of delayed in one key"):
        jobsleuth.analyze(rdb.path, tmp_path / "c", options)


def test_queues_of_two_layouts_need_two_names(tmp_path: Path) -> None:
    """Two layouts that call a queue alike are refused with the line of the second; other queues disturb nobody."""
    second = GOOD.replace('"x"', '"y"\nnamespace = "x"').replace("x:{queue}", "y:{queue}")
    file = tmp_path / "l.toml"
    file.write_text(GOOD + second, encoding="utf-8")
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:mails", [b"1"])
    rdb.put(b"y:reports", [b"1"])
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "apart", options)
    assert case.query("select queue from queues order by 1").to_pylist() == [{"queue": "mails"}, {"queue": "reports"}]
    rdb.put(b"y:mails", [b"1"])
    rdb.read()
    with pytest.raises(UsageError, match=r"line 7: its queue mails in namespace x is called as .* layout at line 1"):
        jobsleuth.analyze(rdb.path, tmp_path / "c", options)
    assert not (tmp_path / "c").exists()


def test_patterns_are_text_not_expressions() -> None:
    """Whatever would mean something in a regular expression stands for itself, and parts come back as they went in."""
    pattern = Pattern.parse("a.b*[{queue}]{{{id...}}}é")
    assert pattern.spelled({"queue": b"q", "id": b"1:\xff"}) == b"a.b*[q]{1:\xff}\xc3\xa9"
    with pytest.raises(DialectError):
        Pattern.parse("x:{id}}")


def test_schema_for_editors_knows_what_the_reader_knows() -> None:
    """The examples of the documentation and the fixture fit the schema and the reader; a mistake fits neither."""
    schema = json.loads((ROOT / "docs/layout-1.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    page = (ROOT / "docs/layouts.md").read_text(encoding="utf-8")
    texts = [DESCRIPTION.read_text(encoding="utf-8"), *re.findall(r"```toml\n(.*?)```", page, re.DOTALL)]
    assert len(texts) == 5
    for text in texts:
        jsonschema.validate(tomllib.loads(text), schema)
    layout = schema["$defs"]["layout"]["properties"]
    assert set(layout["fields"]["properties"]) == set(COLUMNS) - {"id"}
    assert tuple(layout["structure"]["items"]["properties"]["state"]["enum"]) == STATES
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(tomllib.loads(GOOD.replace("waiting", "sleeping")), schema)


def test_examples_of_the_page_are_read(tmp_path: Path) -> None:
    """What is pasted from the documentation works."""
    page = (ROOT / "docs/layouts.md").read_text(encoding="utf-8")
    for number, text in enumerate(re.findall(r"```toml\n(.*?)```", page, re.DOTALL)):
        file = tmp_path / f"{number}.toml"
        file.write_text(text, encoding="utf-8")
        assert load_layouts(file).names


def test_a_home_made_queue_in_order_gives_no_finding(tmp_path: Path) -> None:
    """Jobs in every state, in hashes and in members, with locks, times, errors and no results, as they should be: what
    checks know of libraries is not held against a layout of one's own."""
    structures = [
        ("{queue}:wait", "list", "waiting", ""),
        ("{queue}:busy", "list", "active", ""),
        ("{queue}:later", "zset", "delayed", "s"),
        ("{queue}:again", "zset", "retry", "s"),
        ("{queue}:failed", "list", "failed", ""),
        ("{queue}:done", "zset", "completed", ""),
    ]
    text = ""
    for name, record in (("shop", '[layout.record]\nkey = "shop:job:{id}"\ntype = "hash"\n'), ("app", "")):
        text += f'[[layout]]\nname = "{name}"\n' + ('lock = "shop:lock:{id}"\n' if record else "") + record
        text += '[layout.fields]\nname = "kind"\nattempts = "tries"\nerror = "why"\n'
        for column in ("created_at", "started_at", "finished_at"):
            text += f'{column} = {{ field = "{column}", unit = "s" }}\n'
        for key, type_, state, unit in structures:
            text += f'[[layout.structure]]\nkey = "{name}:{key}"\ntype = "{type_}"\nstate = "{state}"\n'
            text += f'score = "{unit}"\n' if unit else ""
    file = tmp_path / "l.toml"
    file.write_text(text, encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    now = rdb.now_ms // 1000
    for number, (key, type_, state, unit) in enumerate(structures):
        fields: dict[str, Any] = {"kind": "mail", "created_at": now - 30, "tries": 0}
        if state in ("active", "failed", "completed"):
            fields["started_at"] = now - 20
        if state in ("failed", "completed"):
            fields |= {"finished_at": now - 10, "tries": 1}
        if state == "failed":
            fields["why"] = "no route"
        score = now + 60.0 if unit else now - 10.0
        for name, member in (("shop", b"%d" % number), ("app", json.dumps({"id": number, **fields}).encode())):
            rdb.put(key.replace("{queue}", f"{name}:q").encode(), {member: score} if type_ == "zset" else [member])
        rdb.put(b"shop:job:%d" % number, {name.encode(): str(value).encode() for name, value in fields.items()})
        if state == "active":
            rdb.put(b"shop:lock:%d" % number, b"w1", rdb.now_ms + 30_000)
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    states = case.query("select queue, namespace, state from jobs order by all").to_pylist()
    assert len(states) == 2 * len(structures) and "unknown" not in {row["state"] for row in states}
    assert case.query("select check_id, message from findings where dialect is not null").to_pylist() == []


def test_records_are_kept_where_every_list_is_drained(tmp_path: Path) -> None:
    """A list that is empty is no key: jobs that are left in no structure are told all the same, in each database."""
    file = tmp_path / "l.toml"
    record = '[layout.record]\nkey = "x:job:{id}"\ntype = "hash"\n'
    file.write_text(GOOD.replace("[[layout.structure]]", record + "[[layout.structure]]"), encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:mails", [b"1"])
    rdb.put(b"x:job:1", {b"a": b"1"})
    rdb.put(b"x:job:2", {b"a": b"2"})
    rdb.db(3)
    rdb.put(b"x:job:3", {b"a": b"3"})
    rdb.put(b"x:job:4", {b"a": b"4"})
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    rows = case.query("select db, queue, job_id, state from jobs order by job_id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (0, "mails", "1", "waiting"),
        (0, "mails", "2", "unknown"),
        (3, "x", "3", "unknown"),
        (3, "x", "4", "unknown"),
    ]
    lost = case.query("select job_id from findings where check_id = 'MB002' order by 1").to_pylist()
    assert [row["job_id"] for row in lost] == ["2", "3", "4"]


def test_checks_know_structures_by_their_state(tmp_path: Path) -> None:
    """Whatever a structure is called: what is overdue in it, and what is stranded in it, is found."""
    due = GOOD.replace("x:{queue}", "x:{queue}:due").replace('"list"', '"zset"').replace("waiting", "delayed")
    taken = GOOD.split("\n", 2)[2].replace("x:{queue}", "x:{queue}:taken").replace("waiting", "processing")
    fields = '[layout.fields]\ncreated_at = { field = "at", unit = "s" }\n'
    file = tmp_path / "l.toml"
    file.write_text(due + 'score = "s"\nname = "later"\n' + taken + 'name = "busy"\n' + fields, encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    hour_ago = rdb.now_ms // 1000 - 3600
    rdb.put(b"x:q:due", {b'{"id": "a"}': float(hour_ago)})
    rdb.put(b"x:q:taken", [b'{"id": "b", "at": %d}' % hour_ago])
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    found = case.query("select check_id, job_id from findings where job_id is not null order by 1").to_pylist()
    assert [tuple(row.values()) for row in found] == [("LV004", "a"), ("PL001", "b")]
    roles = case.query("select role, key from keys order by key").to_pylist()
    assert [tuple(row.values()) for row in roles] == [("later", "x:q:due"), ("busy", "x:q:taken")]


def test_records_that_nothing_names_are_of_no_queue_in_particular(tmp_path: Path) -> None:
    """With several queues such a record is of none of them: it is told under the layout's name, and a queue of that
    name is there for it only."""
    file = tmp_path / "l.toml"
    record = '[layout.record]\nkey = "x:job:{id}"\ntype = "hash"\n'
    file.write_text(GOOD.replace("[[layout.structure]]", record + "[[layout.structure]]"), encoding="utf-8")
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    for name, ids in (("without", (1, 2)), ("with", (1, 2, 3))):
        rdb = Writer(tmp_path / f"{name}.rdb")
        rdb.put(b"x:mails", [b"1"])
        rdb.put(b"x:news", [b"2"])
        for number in ids:
            rdb.put(b"x:job:%d" % number, {b"a": b"1"})
        rdb.read()
        case = jobsleuth.analyze(rdb.path, tmp_path / name, options)
        queues = [row["queue"] for row in case.query("select queue from queues order by 1").to_pylist()]
        assert queues == (["mails", "news"] if name == "without" else ["mails", "news", "x"])
    rows = case.query("select queue, job_id from jobs order by 2").to_pylist()
    assert [tuple(row.values()) for row in rows] == [("mails", "1"), ("news", "2"), ("x", "3")]


def test_a_field_that_is_not_due_is_no_warning(tmp_path: Path) -> None:
    """Nobody has an error before something failed: then that no record has the field is a warning, else it is none."""
    failed = GOOD.split("\n", 2)[2].replace("x:{queue}", "x:{queue}:failed").replace("waiting", "failed")
    file = tmp_path / "l.toml"
    file.write_text(GOOD + failed + '[layout.fields]\nname = "kind"\nerror = "eror"\n', encoding="utf-8")
    options = jobsleuth.AnalyzeOptions(described=load_layouts(file))
    found = {}
    for name in ("healthy", "failing"):
        rdb = Writer(tmp_path / f"{name}.rdb")
        rdb.put(b"x:q", [b'{"id": "a", "kind": "mail"}'])
        if name == "failing":
            rdb.put(b"x:q:failed", [b'{"id": "b", "kind": "mail", "error": "no route"}'])
        rdb.read()
        case = jobsleuth.analyze(rdb.path, tmp_path / name, options)
        rows = case.query("select message from warnings where kind = 'field_never_there'").to_pylist()
        found[name] = [row["message"] for row in rows]
    assert found == {
        "healthy": [],
        "failing": ["line 13 of the layouts: no record of x has the field eror (error)"],
    }


def test_jobs_in_the_fields_of_hashes(tmp_path: Path) -> None:
    """Ids without a field and fields without an id are told; what is no JSON is kept as it is; a hash that names no
    queue gives each job to the queue that holds its id; bytes that are no text stay exact."""
    file = tmp_path / "l.toml"
    record = '[layout.record]\nkey = "x-jobs"\ntype = "field"\n[layout.fields]\nname = "1.kind.0"\n'
    file.write_text(GOOD.replace("[[layout.structure]]", record + "[[layout.structure]]"), encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:mails", [b"1", b"\xff", b"9"])
    rdb.put(b"x:news", [b"2"])
    rdb.put(b"x-jobs", {b"1": b'[0, {"kind": ["mail"]}]', b"\xff": b"\x80\x04.", b"2": b"[]", b"3": b"{}"})
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    rows = case.query(
        "select queue, job_id, job_id_bytes, state, has_record, name, payload, payload_format, key from jobs order by 2"
    ).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("mails", "1", None, "waiting", True, "mail", b'[0, {"kind": ["mail"]}]', "json", "x-jobs"),
        ("news", "2", None, "waiting", True, None, b"[]", "json", "x-jobs"),
        ("x", "3", None, "unknown", True, None, b"{}", "json", "x-jobs"),
        ("mails", "9", None, "waiting", False, None, None, None, "x-jobs"),
        ("mails", "\\xff", b"\xff", "waiting", True, None, b"\x80\x04.", "opaque", "x-jobs"),
    ]
    found = case.query("select check_id, job_id from findings where severity = 'error' order by 1").to_pylist()
    assert [tuple(row.values()) for row in found] == [("MB001", "9"), ("MB002", "3")]


def test_members_that_hold_more_than_an_id(tmp_path: Path) -> None:
    """The id is what stands before the first colon, a member without one is an id, and twice the same id in one list is
    one job; a line end in a member ends nothing."""
    file = tmp_path / "l.toml"
    record = '[layout.record]\nkey = "x:job:{id}"\ntype = "hash"\n'
    text = GOOD.replace("[[layout.structure]]", record + "[[layout.structure]]") + 'member = "{id}:{rest...}"\n'
    file.write_text(text, encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:mails", [b"1:a", b"2", b"1:b:c", b"3:x\n", b":4"])
    for number in (1, 2, 3):
        rdb.put(b"x:job:%d" % number, {b"a": b"1"})
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    rows = case.query("select job_id, state, has_record from jobs order by 1").to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        ("1", "waiting", True),
        ("2", "waiting", True),
        ("3", "waiting", True),
        (":4", "waiting", False),
    ]
    held = case.query("select position, job_id from membership order by 1").to_pylist()
    assert [row["job_id"] for row in held] == ["1", "2", "1", "3", ":4"]


def test_a_wrong_unit_of_since_is_told(tmp_path: Path) -> None:
    """As for due times: the line of `since` is named."""
    file = tmp_path / "l.toml"
    file.write_text(ZSET + 'since = "ms"\n', encoding="utf-8")
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:q", {b"a": 1_700_000_000.0})
    rdb.read()
    with pytest.raises(UsageError, match=r"line 7: 1 of 1 values of failed are no times .* in the unit ms"):
        jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))


def test_an_exception_is_no_doubt(tmp_path: Path) -> None:
    """What an earlier pattern takes as a special case of a later one is not in doubt; where neither is one of the
    other, it is."""
    structure = '[[layout.structure]]\nkey = "{}"\ntype = "list"\nstate = "{}"\n'
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"x:mails.DQ", [b"1"])
    rdb.read()
    for first, second, doubts in (
        ("x:{queue}.DQ", "x:{queue}", 0),
        ("x:{queue}", "x:{queue}.DQ", 1),
        ("x:m{queue}", "{queue}:mails.DQ", 1),
    ):
        text = '[[layout]]\nname = "x"\n' + structure.format(first, "delayed") + structure.format(second, "waiting")
        test = explain_layouts(rdb.path, read_layouts(text, "l"), ReadOptions())
        assert test.ambiguous_count == doubts, first


def test_fields_that_had_expired_are_no_jobs(tmp_path: Path) -> None:
    """Redis 7.4 lets fields expire: one whose time was over at the snapshot is none, which is told with the number; one
    that was still to live, or that has no time, is a job."""
    file = tmp_path / "l.toml"
    record = '[layout.record]\nkey = "x:{queue}:jobs"\ntype = "field"\n'
    file.write_text(GOOD.replace("[[layout.structure]]", record + "[[layout.structure]]"), encoding="utf-8")
    taken = 1_796_040_000_000
    lines: list[dict[str, Any]] = [
        {"format": "jobsleuth-keyspace", "version": 1, "atomic": True, "as_of_ms": taken},
        {"db": 0, "key": "x:q", "type": "list", "expire_at_ms": None, "value": ["a", "b"]},
        {
            "db": 0,
            "key": "x:q:jobs",
            "type": "hash",
            "expire_at_ms": None,
            "value": [["a", "{}"], ["b", "{}", taken + 1000], ["c", "{}", taken - 1000]],
        },
        {"end": True, "keys": 2},
    ]
    evidence = tmp_path / "evidence.ndjson"
    evidence.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    case = jobsleuth.analyze(evidence, tmp_path / "c", jobsleuth.AnalyzeOptions(described=load_layouts(file)))
    assert [row["job_id"] for row in case.query("select job_id from jobs order by 1").to_pylist()] == ["a", "b"]
    told = case.query("select message, count from warnings where kind = 'expired_fields'").to_pylist()
    assert told == [{"message": "fields of hashes of x had expired: they are no jobs", "count": 1}]
