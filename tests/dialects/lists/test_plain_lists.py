"""Plain lists of a real server, held against its own LRANGE, ZRANGE and SMEMBERS."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import jobsleuth
from jobsleuth.case import Redactor
from jobsleuth.dialects import Described, Options
from jobsleuth.dialects.layouts.file import load_layouts
from jobsleuth.dialects.lists import DIALECT
from jobsleuth.sources import RdbKeyspace
from tests.dialects.bullmq.conftest import Writer

ROOT = Path(__file__).parents[3]
FIXTURE = ROOT / "fixtures/lists/plain-7.0.15"
TOLD: dict[str, tuple[str, Any]] = json.loads((FIXTURE / "expect/server.json").read_text(encoding="utf-8"))
STRUCTURES = {
    "queue:mails": ("queue", "mails", "waiting"),
    "queue:mails:processing:alive": ("queue", "mails", "processing"),
    "queue:mails:processing:killed": ("queue", "mails", "processing"),
    "queue:mails:delayed": ("queue", "mails", "delayed"),
    "queue:mails:seen": ("queue", "mails", "seen"),
    "shop:eu:queue:stock": ("shop:eu", "stock", "waiting"),
    "reports:queue": ("lists", "reports", "waiting"),
}
"""Keys whose names say what they are; every other list of the dump is none of ours."""


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> jobsleuth.Case:
    return jobsleuth.analyze(FIXTURE / "evidence.rdb", tmp_path_factory.mktemp("case") / "c")


def placed(case: jobsleuth.Case) -> dict[str, tuple[str, str, str]]:
    """Keys that are plain lists → namespace, queue and role."""
    rows = case.query("select key, namespace, queue, role from keys where dialect = 'lists'").to_pylist()
    return {r["key"]: (r["namespace"], r["queue"], r["role"]) for r in rows}


def raw(item: Any) -> bytes:
    return base64.b64decode(item["b64"]) if isinstance(item, dict) else item.encode()


def expected_id(member: bytes, before: Sequence[bytes] = ()) -> str:
    """Its own id where it is JSON, else a digest, with its number where the same bytes stand before it in its list:
    worked out here from the server's reply."""
    try:
        record = json.loads(member)
    except ValueError:
        copy = before.count(member) + 1
        return f"sha256:{hashlib.sha256(member).hexdigest()[:16]}" + (f"#{copy}" if copy > 1 else "")
    return str(next(record[name] for name in ("id", "jid", "uuid") if name in record))


def test_only_names_that_say_so(case: jobsleuth.Case) -> None:
    """Lists called otherwise stay what they are, however much they look like queues."""
    assert placed(case) == STRUCTURES


def test_members(case: jobsleuth.Case) -> None:
    """Every element at its place, as the server listed it."""
    expected = []
    for key, (_, _, structure) in STRUCTURES.items():
        kind, value = TOLD[key]
        members = [raw(item[0] if kind == "zset" else item) for item in value]
        for position, member in enumerate(members):
            own = member.decode() if kind == "set" else expected_id(member, members[:position])
            expected.append((key, None if kind == "set" else position, own, structure, kind != "set"))
    rows = case.query("select key, position, job_id, structure, decides_state from membership").to_pylist()
    got = [(r["key"], r["position"], r["job_id"], r["structure"], r["decides_state"]) for r in rows]
    assert sorted(expected, key=str) == sorted(got, key=str)


def test_jobs(case: jobsleuth.Case) -> None:
    """One job an id, with the bytes of the item as payload; processing comes before waiting, delayed last. A text that
    a list holds twice is two jobs."""
    expected: dict[tuple[str, str], tuple[str, bytes]] = {}
    order = ("delayed", "waiting", "processing")
    for state in order:
        for key, (_, queue, structure) in STRUCTURES.items():
            if structure == state:
                kind, value = TOLD[key]
                members = [raw(item[0] if kind == "zset" else item) for item in value]
                for position, member in enumerate(members):
                    expected[queue, expected_id(member, members[:position])] = (state, member)
    rows = case.query("select queue, job_id, state, payload, has_record, key from jobs").to_pylist()
    assert expected == {(r["queue"], r["job_id"]): (r["state"], r["payload"]) for r in rows}
    assert len(rows) == len(expected) and all(r["has_record"] and r["key"] is None for r in rows)


def test_times_and_workers(case: jobsleuth.Case) -> None:
    """Seconds and milliseconds are told apart by their size; a list of one worker names it."""
    rows = case.query(
        "select job_id, name, epoch_ms(created_at) as made, epoch_ms(scheduled_at) as due, worker_name from jobs"
        " where queue = 'mails' and payload_format = 'json'"
    ).to_pylist()
    jobs = {row["job_id"]: row for row in rows}
    seconds = json.loads(TOLD["queue:mails:processing:killed"][1][0])["enqueued_at"]
    assert jobs["mail-4"]["made"] == int(seconds * 1000)
    scores = [score for _, score in TOLD["queue:mails:delayed"][1]]
    assert (jobs["due"]["due"], jobs["later"]["due"]) == (int(scores[0] * 1000), int(scores[1]))
    assert {j: r["worker_name"] for j, r in jobs.items() if r["worker_name"]} == {
        "mail-2": "alive",
        "mail-3": "killed",
        "mail-4": "killed",
    }
    assert {r["name"] for r in rows} == {"Mail"}


def test_findings(case: jobsleuth.Case) -> None:
    """Each planted fault once: in two places, stranded with a killed worker, overdue, cut off. A text that a list holds
    twice is none."""
    rows = case.query("select check_id, queue, job_id from findings where dialect = 'lists'").to_pylist()
    cut_off = expected_id(b'{"jid": "cut off')
    assert sorted((r["check_id"], r["queue"], r["job_id"]) for r in rows) == [
        ("LV004", "mails", "due"),
        ("MB003", "mails", "mail-4"),
        ("PL001", "mails", "mail-2"),
        ("PL001", "mails", "mail-3"),
        ("PL001", "mails", "mail-4"),
        ("PL002", "mails", cut_off),
    ]


def test_names_can_be_given(tmp_path: Path) -> None:
    """Patterns of the user stand in place of the built-in ones."""
    (tmp_path / "jobsleuth.toml").write_text('[lists]\nwaiting = ["recent:{queue}"]\n', encoding="utf-8")
    described = load_layouts(tmp_path / "jobsleuth.toml")
    options = jobsleuth.AnalyzeOptions(described=described)
    case = jobsleuth.analyze(FIXTURE / "evidence.rdb", tmp_path / "c", options)
    rows = case.query("select queue from queues where dialect = 'lists'").to_pylist()
    assert rows == [{"queue": "visitors"}]


def analyzed(folder: Path, text: str, keys: dict[bytes, Any]) -> jobsleuth.Case:
    """A case of these keys under a jobsleuth.toml of this text."""
    (folder / "jobsleuth.toml").write_text(text, encoding="utf-8")
    rdb = Writer(folder / "evidence.rdb")
    for key, value in keys.items():
        rdb.put(key, value)
    rdb.read()
    options = jobsleuth.AnalyzeOptions(described=load_layouts(folder / "jobsleuth.toml"))
    return jobsleuth.analyze(rdb.path, folder / "c", options)


def test_lists_without_a_part_for_the_queue_are_queues_of_their_own(tmp_path: Path) -> None:
    """One id in two waiting lists is two jobs of two queues, no job in two places; what begins like a waiting list
    belongs to it."""
    job = b'{"id": 1}'
    case = analyzed(
        tmp_path,
        '[lists]\nwaiting = ["jobs", "mails", "eu:{queue}", "us:{queue}"]\n'
        'processing = ["jobs:busy:{worker}", "eu:{queue}:busy", "elsewhere"]\ndelayed = ["mails:later"]\n',
        {
            b"jobs": [job],
            b"mails": [job],
            b"jobs:busy:w1": [b'{"id": 2}'],
            b"mails:later": {b'{"id": 3}': 1_700_000_100.0},
            b"eu:x": [job],
            b"us:x": [job],
            b"eu:x:busy": [job],
            b"elsewhere": [job],
        },
    )
    assert placed(case) == {
        "jobs": ("lists", "jobs", "waiting"),
        "jobs:busy:w1": ("lists", "jobs", "processing"),
        "mails": ("lists", "mails", "waiting"),
        "mails:later": ("lists", "mails", "delayed"),
        "eu:x": ("eu", "x", "waiting"),
        "eu:x:busy": ("eu", "x", "processing"),
        "us:x": ("us", "x", "waiting"),
        "elsewhere": ("lists", "elsewhere", "processing"),
    }
    twice = case.query("select namespace, queue, job_id from findings where check_id = 'MB003'").to_pylist()
    assert [tuple(row.values()) for row in twice] == [("eu", "x", "1")]


def test_one_waiting_list_takes_what_is_called_otherwise(tmp_path: Path) -> None:
    """Where there is no other waiting list, everything belongs to it, whatever it is called."""
    case = analyzed(
        tmp_path,
        '[lists]\nwaiting = ["todo"]\nprocessing = ["doing"]\n',
        {b"todo": [b'{"id": 1}'], b"doing": [b'{"id": 2}']},
    )
    rows = case.query("select queue, job_id, state from jobs order by job_id").to_pylist()
    assert [tuple(row.values()) for row in rows] == [("todo", "1", "waiting"), ("todo", "2", "processing")]


def test_the_same_text_is_as_many_jobs(tmp_path: Path) -> None:
    """Three equal texts in a list are three jobs and no fault; the same text in two lists may be one job that moved, so
    it is told as possible; an id of its own makes it certain."""
    case = analyzed(
        tmp_path,
        "",
        {
            b"queue:q": [b"ping", b"ping", b"ping", b'{"n": 1}', b'{"n": 1}', b'{"id": "a"}', b'{"id": "a", "n": 2}'],
            b"queue:q:processing": [b"ping"],
        },
    )
    ping, nameless = expected_id(b"ping"), expected_id_of_nameless(b'{"n": 1}')
    rows = case.query("select job_id, state from jobs order by job_id").to_pylist()
    assert {r["job_id"]: r["state"] for r in rows} == {
        "a": "waiting",
        ping: "processing",
        f"{ping}#2": "waiting",
        f"{ping}#3": "waiting",
        nameless: "waiting",
        f"{nameless}#2": "waiting",
    }
    found = case.query(
        "select check_id, job_id, severity, certainty from findings where check_id like 'MB%' order by check_id"
    ).to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("MB003", ping, "warning", "possible"),
        ("MB004", "a", "error", "certain"),
    ]


def expected_id_of_nameless(member: bytes) -> str:
    return f"sha256:{hashlib.sha256(member).hexdigest()[:16]}"


def test_a_number_and_its_digits_are_one_id(tmp_path: Path) -> None:
    """1 and "1" are the same id: Redis itself knows texts only. NaN is no JSON, so such a payload has no id; nor has
    one in another encoding than UTF-8."""
    members = [b'{"id": 1}', b'{"id": "1"}', b'{"id": NaN}', b'{"id": true}', b'{"id": 2.5}', b"NaN", b"-Infinity"]
    others = ['{"id": 3}'.encode(encoding) for encoding in ("utf-16-le", "utf-8-sig", "utf-32")]
    members += others
    case = analyzed(tmp_path, "", {b"queue:q": members})
    rows = case.query("select job_id, payload, payload_format from jobs").to_pylist()
    assert {r["payload"]: (r["job_id"], r["payload_format"]) for r in rows} == {
        b'{"id": 1}': ("1", "json"),
        b'{"id": NaN}': (expected_id_of_nameless(b'{"id": NaN}'), "opaque"),
        b'{"id": true}': (expected_id_of_nameless(b'{"id": true}'), "json"),
        b'{"id": 2.5}': (expected_id_of_nameless(b'{"id": 2.5}'), "json"),
        b"NaN": (expected_id_of_nameless(b"NaN"), "opaque"),
        b"-Infinity": (expected_id_of_nameless(b"-Infinity"), "opaque"),
        **{member: (expected_id_of_nameless(member), "opaque") for member in others},
    }
    twice = case.query("select job_id, certainty from findings where check_id = 'MB004'").to_pylist()
    assert twice == [{"job_id": "1", "certainty": "certain"}]


def test_what_one_copy_lacks_another_tells(tmp_path: Path) -> None:
    """A job in two places has the payload of the place that decides its state, and the time that only the other holds;
    where a name that is tried first holds no time, the next one counts."""
    case = analyzed(
        tmp_path,
        "",
        {
            b"queue:q": [
                b'{"id": "a", "created_at": 1700000000, "name": "old"}',
                b'{"id": "b", "created_at": "soon", "enqueued_at": 1700000001}',
            ],
            b"queue:q:processing": [b'{"id": "a", "name": "new"}'],
        },
    )
    rows = case.query("select job_id, state, name, epoch_ms(created_at) as made, payload from jobs order by 1")
    assert [tuple(row.values())[:4] for row in rows.to_pylist()] == [
        ("a", "processing", "new", 1_700_000_000_000),
        ("b", "waiting", None, 1_700_000_001_000),
    ]
    assert rows.to_pylist()[0]["payload"] == b'{"id": "a", "name": "new"}'


def test_what_belongs_to_a_queue_is_no_queue(tmp_path: Path) -> None:
    """Every documented tail behind `mails:queue` belongs to it, also where a waiting queue could be called so."""
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"mails:queue", [b"a"])
    rdb.put(b"mails:queue:processing", [b"b"])
    rdb.put(b"mails:queue:processing:w1", [b"c"])
    rdb.put(b"mails:queue:processing:host-1:4711", [b"g"])
    rdb.put(b"mails:queue:delayed", {b"d": 1_700_000_100.0})
    rdb.put(b"mails:queue:seen", {b"e"})
    rdb.put(b"shop:queue:mails:processing", [b"f"])
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c")
    held = case.query("select worker_name from jobs where worker_name is not null order by 1").to_pylist()
    assert [row["worker_name"] for row in held] == ["host-1:4711", "w1"]
    assert placed(case) == {
        "mails:queue": ("lists", "mails", "waiting"),
        "mails:queue:processing": ("lists", "mails", "processing"),
        "mails:queue:processing:w1": ("lists", "mails", "processing"),
        "mails:queue:processing:host-1:4711": ("lists", "mails", "processing"),
        "mails:queue:delayed": ("lists", "mails", "delayed"),
        "mails:queue:seen": ("lists", "mails", "seen"),
        "shop:queue:mails:processing": ("shop", "mails", "processing"),
    }


def test_queues_of_two_families_are_two(tmp_path: Path) -> None:
    """Names that differ in the literal only are no one queue; each is called the same whether the other is there."""
    keys = {
        "queue:x": ("queue", "x"),
        "queues:x": ("queues", "x"),
        "x:queue": ("lists", "x"),
        "queue:queue:x": ("queue", "queue:x"),
        "queue:queues:x": ("queue:queues", "x"),
        "lists:queue:x": ("lists", "queue:x"),
        "app:queue:x": ("app", "x"),
        "app:queues:x": ("app:queues", "x"),
        "app:queues:queue:x": ("app:queues", "queue:x"),
    }
    sets = [*([key] for key in keys), list(keys)]
    for number, some in enumerate(sets):
        rdb = Writer(tmp_path / f"{number}.rdb")
        for key in some:
            rdb.put(key.encode(), [b'{"id":"1"}'])
        rdb.read()
        case = jobsleuth.analyze(rdb.path, tmp_path / f"c{number}")
        rows = case.query("select key, namespace, queue from keys where dialect = 'lists'").to_pylist()
        assert {r["key"]: (r["namespace"], r["queue"]) for r in rows} == {key: keys[key] for key in some}
        assert case.query("select distinct namespace, queue from queues").num_rows == len(some)
        assert not case.query("select 1 from findings where check_id = 'MB003'").num_rows


@pytest.mark.parametrize("name", ["bullmq/v6-hostile", "bullmq/v5-names", "bullmq/bull4-names", "asynq/faults-0.26.0"])
def test_dumps_of_libraries_gain_no_queue(name: str, tmp_path: Path) -> None:
    """What other dialects claim stays theirs, and their leftovers are not taken for plain lists."""
    case = jobsleuth.analyze(ROOT / f"fixtures/{name}/evidence.rdb", tmp_path / "c")
    assert case.query("select key from keys where dialect in ('lists', 'layouts')").num_rows == 0


def test_keyspace_without_lists_is_not_looked_at() -> None:
    """Only types of keys are asked for where no list, set or zset is free."""

    class Never:
        def __init__(self, keyspace: RdbKeyspace) -> None:
            self.keys, self.live = keyspace.keys, keyspace.live

        def __getattr__(self, name: str) -> Any:
            raise AssertionError(f"{name} was asked for")

    keyspace: Any = Never(RdbKeyspace.open(FIXTURE / "evidence.rdb"))
    claims = DIALECT.claim(keyspace, ~keyspace.live, Options())
    assert not claims.queues and list(DIALECT.tables(keyspace, claims, Options())) == []
    assert Described().lists is None


def test_redacted_ids_give_no_payload_away(tmp_path: Path) -> None:
    """The id of an item without one is a digest of its bytes: redacted it is keyed, the same in every table, and what
    is said of it stays the same."""
    rdb = Writer(tmp_path / "evidence.rdb")
    rdb.put(b"queue:q", [b"call +49 30 123456", b"call +49 30 123456", b"other"])
    rdb.put(b"queue:q:processing", [b"call +49 30 123456"])
    rdb.read()
    options = jobsleuth.AnalyzeOptions(redactor=Redactor(b"k" * 16))
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", options)
    given_away = hashlib.sha256(b"call +49 30 123456").hexdigest()[:16].encode()
    assert not [file for file in (tmp_path / "c").rglob("*") if file.is_file() and given_away in file.read_bytes()]
    rows = case.query("select job_id from jobs").to_pylist()
    assert all(re.fullmatch(r"sha256:redacted-[0-9a-f]{16}(#2)?", row["job_id"]) for row in rows) and len(rows) == 3
    lost = case.query("select 1 from membership anti join jobs using (queue, job_id)")
    assert lost.num_rows == 0
    found = case.query("select check_id, certainty, job_id from findings where check_id = 'MB003'").to_pylist()
    assert [(r["check_id"], r["certainty"], r["job_id"] in {row["job_id"] for row in rows}) for r in found] == [
        ("MB003", "possible", True)
    ]


@pytest.mark.parametrize("options", [{}, {"payload_limit": 0}, {"payload_limit": 1}, {"redactor": Redactor(b"k" * 16)}])
def test_a_broken_payload_is_told_whatever_is_kept_of_it(options: dict[str, Any], tmp_path: Path) -> None:
    """Two payloads of six that begin as JSON, behind a lot of white space too, and are none: the same findings, just as
    certain, where payloads are cut, redacted or left out; the one that begins otherwise is none of them."""
    rdb = Writer(tmp_path / "evidence.rdb")
    good = [b'{"id": "%d"}' % number for number in range(4)]
    rdb.put(b"queue:q", [*good, b" " * 100 + b'{"id": "cut', b"[1,", b"plain"])
    rdb.read()
    case = jobsleuth.analyze(rdb.path, tmp_path / "c", jobsleuth.AnalyzeOptions(**options))
    rows = case.query(
        "select payload_bytes, certainty from findings join jobs using (job_id) where check_id = 'PL002' order by 1"
    ).to_pylist()
    assert [tuple(row.values()) for row in rows] == [(3, "certain"), (111, "certain")]
