"""What `guess` prints can be pasted: it takes just the keys it was made for, and they are not guessed at again."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path
from typing import Any

import pytest

from jobsleuth.dialects import Described
from jobsleuth.dialects.layouts.file import read_layouts
from jobsleuth.pipeline.described import explain_layouts
from jobsleuth.pipeline.guess import Guess, guess
from jobsleuth.sources import ReadOptions
from tests.dialects.bullmq.conftest import Writer

FIXTURES = Path(__file__).parents[2] / "fixtures"
NOW = 1_700_000_000
READING = ReadOptions()


def record(number: int, **more: Any) -> bytes:
    return json.dumps({"id": f"job-{number}", "name": "mail", "created_at": NOW + number, **more}).encode()


def hashes(pattern: str, *ids: int) -> dict[bytes, Any]:
    return {
        pattern.format(number).encode(): {b"data": b"{}", b"created_at": b"%d" % (NOW + number), b"origin": b"x"}
        for number in ids
    }


SHAPES: dict[str, dict[bytes, Any]] = {
    "roles behind": {
        b"app:wait": [record(1), record(2)],
        b"app:processing": [record(3)],
        b"app:delayed": {record(4): NOW + 60.0},
        b"app:failed": {record(5): NOW - 60.0},
        b"app:seen": {b"job-1", b"job-2"},
    },
    "roles before": {b"wait:app": [record(1)], b"processing:app": [record(3)], b"delayed:app": {record(4): NOW + 60.0}},
    "queues before roles": {
        b"mails:wait": [record(1)],
        b"news:wait": [record(2)],
        b"news:active": [record(3)],
        b"lone:todo": [record(4)],
    },
    "words within a part": {
        b"shop.mails-processing": [record(1)],
        b"shop.mails_delayed": {record(2): NOW * 1000.0},
        b"shop.mails": [record(3)],
    },
    "no prefix": {
        b"schedule": {record(1): NOW + 1.5},
        b"retry": {record(2): NOW + 0.5},
        b"dead": {record(3): NOW - 9.0},
    },
    "words of queues that clash": {b"jobs:failed": [record(1)], b"tasks:failed": [record(2)], b"queue:waiting": [b"x"]},
    "workers": {
        b"app:mails": [b"1", b"2"],
        b"app:mails:processing:host-1": [b"3"],
        b"app:mails:processing:host-2": [b"4"],
        **hashes("app:job:{}", 1, 2, 3, 4),
    },
    "workers called host:pid": {
        b"app:mails": [b"1"],
        b"app:mails:processing:host-1:17": [b"2"],
        b"app:mails:processing:host-2:18": [b"3"],
        **hashes("app:job:{}", 1, 2, 3),
    },
    "rq": {
        b"rq:queue:default": [b"1", b"2"],
        b"rq:queue:high": [b"3"],
        b"rq:wip:default": {b"4": NOW + 180.0},
        b"rq:finished:high": {b"5": NOW + 500.0},
        b"rq:queues": {b"rq:queue:default", b"rq:queue:high"},
        **hashes("rq:job:{}", 1, 2, 3, 4, 5),
    },
    "resque": {
        b"resque:queue:mail": [record(1)],
        b"resque:failed": [record(2)],
        b"resque:delayed:1700000000": [record(3)],
        b"resque:delayed:1700000060": [record(4)],
        b"resque:delayed_queue_schedule": {b"1700000000": NOW + 0.0},
        b"resque:queues": {b"mail"},
    },
    "celery": {
        b"celery": [json.dumps({"body": "W10=", "headers": {"id": f"{n}-a", "task": "t"}}).encode() for n in range(3)],
        b"unacked": {b"tag": b"[]"},
        b"unacked_index": {b"tag": NOW + 0.5},
        b"_kombu.binding.celery": {b"celery\x06\x16\x06\x16celery"},
    },
    "records that name the queue": {
        b"app:mails:waiting": [b"1", b"2"],
        b"app:news:waiting": [b"1"],
        **hashes("app:mails:job:{}", 1, 2),
        **hashes("app:news:job:{}", 1),
    },
    "queues that share their records": {
        b"inbox": [b"1", b"2"],
        b"app:processing": [b"3"],
        **hashes("job:{}", 1, 2, 3),
    },
    "kue": {
        b"q:jobs": {b"01|1": 0.0, b"01|2": 0.0},
        b"q:jobs:inactive": {b"01|1": 0.0},
        b"q:jobs:active": {b"01|2": 0.0},
        b"q:mail:jobs": [b"1"],
        b"q:job:1": {b"type": b"mail"},
        b"q:job:2": {b"type": b"mail"},
        b"q:ids": b"2",
    },
    "arq": {
        b"arq:queue": {
            b"51e1feccd764404bbc682493b6b0603f": NOW * 1000.0,
            b"5a5521759ad7409b859373a46e562865": NOW * 1000.0,
        },
        b"arq:job:51e1feccd764404bbc682493b6b0603f": b"\x80\x04\x95",
        b"arq:job:5a5521759ad7409b859373a46e562865": b"\x80\x04\x95",
    },
    "braces and ids with colons": {
        b"{app}:wait": [b"a:1", b"a:2"],
        b"{app}:job:{a:1}": {b"k": b"v"},
        b"{app}:job:{a:2}": {b"k": b"v"},
    },
    "hostile names": {
        b"\xff\xfe:wait": [record(1)],
        b"a\xff:b\xfe:wait": [record(2)],
        "\U0001f600:wait".encode(): [record(3)],
        b'q"\\\n\x1b[2J\x7f:wait': [record(4)],
        b"::wait": [record(5)],
        b"wait": [record(6)],
        b"{queue}:wait": [record(7)],
        b"w" * 5000 + b":wait": [record(8)],
        b"": [record(9)],
        b":": [record(10)],
    },
    "one unit here, another there": {
        b"a:due": {b"x%d" % n: NOW + float(n) for n in range(30)},
        b"b:due": {b"x%d" % n: NOW * 1000.0 + n for n in range(30)},
        b"c:due": {b"x%d" % n: float(n) if n < 40 else NOW + float(n) for n in range(60)},
    },
    "times that only the first jobs hold": {
        b"app:wait": [record(n) for n in range(50)] + [b'{"id": "%d", "created_at": ""}' % n for n in range(200)],
    },
    "one part more or less": {
        b"a:x": [record(1)],
        b"a:y": [record(2)],
        b"a:x:busy": [record(3)],
        b"a:z:x": [record(4)],
        b"a:busy": [record(5)],
        b"b": [record(6)],
    },
}


def dump(folder: Path, keys: dict[bytes, Any], second: dict[bytes, Any] | None = None) -> Path:
    rdb = Writer(folder / "evidence.rdb")
    for key, value in keys.items():
        rdb.put(key, value)
    if second:
        rdb.db(3)
        for key, value in second.items():
            rdb.put(key, value)
    rdb.read()
    return rdb.path


def require_pasted_takes_its_keys(evidence: Path, found: list[Guess]) -> None:
    """All layouts together, and each of them alone, as `layout test` sees them."""
    texts = [g.layout for g in found if g.layout is not None]
    counts = [g.count for g in found if g.layout is not None]
    for some, expected in [("\n".join(texts), sum(counts)), *zip(texts, counts, strict=True)]:
        if not some:
            continue
        assert some.isascii() and all(line.isprintable() for line in some.splitlines())
        test = explain_layouts(evidence, read_layouts(some, "pasted"), READING)
        assert (test.ambiguous_count, test.foreign_count) == (0, 0), test
        assert all(pattern.keys for fact in test.layouts for pattern in fact.patterns), some
        assert all(fact.queues and not fact.unread for fact in test.layouts), test.layouts
        structures = [p for fact in test.layouts for p in fact.patterns if not p.what.endswith(", records")]
        assert sum(p.keys for p in structures) >= expected
    rest = guess(evidence, read_layouts("\n".join(texts), "pasted"), READING)
    told = {key for g in found if g.layout is not None for key in g.keys}
    assert not told & {key for g in rest for key in g.keys}


@pytest.mark.parametrize("shape", SHAPES, ids=lambda name: name.replace(" ", "-"))
def test_of_queues_as_people_build_them(shape: str, tmp_path: Path) -> None:
    """Each shape alone."""
    evidence = dump(tmp_path, SHAPES[shape])
    found = guess(evidence, Described(), READING)
    assert any(g.layout for g in found)
    require_pasted_takes_its_keys(evidence, found)


def test_of_all_of_them_in_one_dump(tmp_path: Path) -> None:
    """All shapes in one file, some of them in two databases."""
    keys = {key: value for shape in SHAPES.values() for key, value in shape.items()}
    evidence = dump(tmp_path, keys, {**SHAPES["roles behind"], **SHAPES["rq"], b"app:wait": {record(1): 5.0}})
    require_pasted_takes_its_keys(evidence, guess(evidence, Described(), READING))


@pytest.mark.parametrize("seed", range(40))
def test_of_names_drawn_by_lot(seed: int, tmp_path: Path) -> None:
    """Names made of the same few words in any order, with records or without, in forms that nobody thought of."""
    draw = random.Random(seed)
    words = [
        "app",
        "shop",
        "mails",
        "job",
        "jobs",
        "queue",
        "wait",
        "processing",
        "failed",
        "w1",
        "2",
        "{x}",
        "",
        "-",
        "a-busy",
    ]
    keys: dict[bytes, Any] = {}
    for _ in range(draw.randint(1, 40)):
        name = ":".join(draw.choices(words, k=draw.randint(1, 4))).encode()
        ids = [str(draw.randint(1, 9)).encode() for _ in range(draw.randint(1, 4))]
        members = ids if draw.random() < 0.5 else [record(int(i)) for i in ids]
        kind = draw.choice(["list", "list", "zset", "set", "hash", "string"])
        if kind == "zset":
            keys[name] = {member: draw.choice([NOW, NOW * 1000, 3]) + float(n) for n, member in enumerate(members)}
        elif kind == "hash":
            keys[name + b":" + ids[0]] = {b"data": b"{}", b"at": b"%d" % NOW}
        elif kind == "string":
            keys[name + draw.choice([b":", b"-"]) + ids[0]] = record(1)
        else:
            keys[name] = set(members) if kind == "set" else members
    evidence = dump(tmp_path, keys)
    require_pasted_takes_its_keys(evidence, guess(evidence, Described(), READING))


DUMPS = sorted({*sorted(FIXTURES.glob("*/*/evidence.rdb"))[::5], *FIXTURES.glob("[ls]*/*/evidence.rdb")})


@pytest.mark.parametrize("evidence", DUMPS, ids=lambda path: f"{path.parts[-3]}/{path.parts[-2]}")
def test_of_real_dumps(evidence: Path) -> None:
    """Dumps of real servers, with keys of libraries in them that no pattern may take."""
    require_pasted_takes_its_keys(evidence, guess(evidence, Described(), READING))


@pytest.mark.filterwarnings("error")
def test_scores_that_are_no_times(tmp_path: Path) -> None:
    """The largest numbers there are, and infinite ones: no unit, and no word of them on the screen."""
    scores = {b"a": float("inf"), b"b": 1.7e308, b"c": float("-inf")}
    evidence = dump(tmp_path, {b"app:delayed": scores, b"app:wait": [record(1)]})
    found = guess(evidence, Described(), READING)
    assert structures(found) == [("app", [("app:delayed", "zset", "delayed"), ("app:wait", "list", "waiting")])]
    require_pasted_takes_its_keys(evidence, found)


def structures(found: list[Guess]) -> list[tuple[str | None, list[tuple[str, str, str | None]]]]:
    """Queue, and pattern, type, state of each layout."""
    layouts = [layout for g in found if g.layout for layout in tomllib.loads(g.layout)["layout"]]
    return [(form.get("queue"), [(s["key"], s["type"], s.get("state")) for s in form["structure"]]) for form in layouts]


def test_a_queue_is_not_split_by_its_roles(tmp_path: Path) -> None:
    """Lists, zsets and sets of one queue make one layout, wherever the word for the role stands."""
    for shape, expected in {
        "roles behind": (
            "app",
            [
                ("app:delayed", "zset", "delayed"),
                ("app:failed", "zset", "failed"),
                ("app:processing", "list", "processing"),
                ("app:seen", "set", None),
                ("app:wait", "list", "waiting"),
            ],
        ),
        "roles before": (
            "app",
            [
                ("delayed:app", "zset", "delayed"),
                ("processing:app", "list", "processing"),
                ("wait:app", "list", "waiting"),
            ],
        ),
        "words within a part": (
            "shop.mails",
            [
                ("shop.mails", "list", "waiting"),
                ("shop.mails-processing", "list", "processing"),
                ("shop.mails_delayed", "zset", "delayed"),
            ],
        ),
    }.items():
        (tmp_path / shape).mkdir()
        found = guess(dump(tmp_path / shape, SHAPES[shape]), Described(), READING)
        assert structures(found) == [expected]


def test_queues_of_rq(tmp_path: Path) -> None:
    """Its queues share a layout with the records of their jobs, although the names of its lists alone say queue too."""
    (found,) = guess(dump(tmp_path, SHAPES["rq"]), Described(), READING)
    assert found.kind == "lists and zsets with ids, and a hash for each job"
    assert structures([found]) == [
        (
            None,
            [
                ("rq:finished:{queue}", "zset", "completed"),
                ("rq:queue:{queue}", "list", "waiting"),
                ("rq:wip:{queue}", "zset", "processing"),
            ],
        )
    ]
    layout = tomllib.loads(found.layout or "")["layout"][0]
    assert layout["record"] == {"key": "rq:job:{id}", "type": "hash"}
    assert layout["fields"] == {"payload": "data", "created_at": {"field": "created_at", "unit": "s"}}


def test_ids_and_names_inside_messages(tmp_path: Path) -> None:
    """Messages of Celery hold id and task one level down."""
    (found,) = [g for g in guess(dump(tmp_path, SHAPES["celery"]), Described(), READING) if b"celery" in g.keys]
    layout = tomllib.loads(found.layout or "")["layout"][0]
    assert (layout["ids"], layout["fields"]) == (["headers.id"], {"name": "headers.task"})


def test_records_that_name_their_queue(tmp_path: Path) -> None:
    """The part of the record's name that is the queue's name is one in the pattern."""
    (found,) = guess(dump(tmp_path, SHAPES["records that name the queue"]), Described(), READING)
    layout = tomllib.loads(found.layout or "")["layout"][0]
    assert layout["record"] == {"key": "app:{queue}:job:{id}", "type": "hash"}
    assert [s["key"] for s in layout["structure"]] == ["app:{queue}:waiting"]


def test_of_more_keys_than_are_looked_into(tmp_path: Path) -> None:
    """Names that say most come first, wherever they stand in the file; numbers in lists that happen to be in names of
    cached strings are no ids."""
    keys: dict[bytes, Any] = {b"cache:%d" % n: b"page %d" % n for n in range(2500)}
    keys |= {b"misc:%d:x%d" % (n, n % 7): [b"%d" % n] for n in range(2500)}
    keys |= {b"shop:q%d:wait" % n: [b"a%d" % n] for n in range(30)}
    keys |= hashes("shop:job:a{}", *range(30))
    evidence = dump(tmp_path, keys)
    found = guess(evidence, Described(), READING)
    assert structures(found) == [(None, [("shop:{queue}:wait", "list", "waiting")])]
    assert tomllib.loads(found[0].layout or "")["layout"][0]["record"] == {"key": "shop:job:{id}", "type": "hash"}
    require_pasted_takes_its_keys(evidence, found)


def test_records_that_are_no_json(tmp_path: Path) -> None:
    """Ids that nobody counts up name the pickled jobs of arq."""
    (found,) = guess(dump(tmp_path, SHAPES["arq"]), Described(), READING)
    layout = tomllib.loads(found.layout or "")["layout"][0]
    assert layout["record"] == {"key": "arq:job:{id}", "type": "json"}
    assert layout["structure"] == [{"key": "arq:queue", "type": "zset", "state": "waiting", "score": "ms"}]


def test_workers_are_a_part_of_the_pattern(tmp_path: Path) -> None:
    """What follows `processing` behind the name of a queue names a worker, with or without a colon in it."""
    for shape, part in (("workers", "{worker}"), ("workers called host:pid", "{worker...}")):
        (tmp_path / part).mkdir()
        found = guess(dump(tmp_path / part, SHAPES[shape]), Described(), READING)
        lists = [("app:mails", "list", "waiting"), (f"app:mails:processing:{part}", "list", "processing")]
        assert structures(found) == [("mails", lists)]


def of_library(name: str) -> list[tuple[dict[str, Any] | None, list[tuple[str, str, str | None]]]]:
    """Record and structures of each layout that is guessed of a real queue."""
    (folder,) = (FIXTURES / "layouts").glob(f"{name}-*")
    layouts = [
        tomllib.loads(g.layout)["layout"] for g in guess(folder / "evidence.rdb", Described(), READING) if g.layout
    ]
    return [
        (form.get("record"), [(s["key"], s["type"], s.get("state")) for s in form["structure"]]) for (form,) in layouts
    ]


def test_jobs_that_are_fields_of_a_hash() -> None:
    """Ids that are fields of a hash: of dramatiq, of Bee-Queue, whose ids are small numbers, and Celery's unacked."""
    assert of_library("dramatiq") == [
        ({"key": "dramatiq:mails.msgs", "type": "field"}, [("dramatiq:mails", "list", "waiting")]),
        ({"key": "dramatiq:mails.XQ.msgs", "type": "field"}, [("dramatiq:mails.XQ", "zset", "delayed")]),
    ]
    ((record, parts),) = of_library("bee-queue")
    assert record == {"key": "bq:mails:jobs", "type": "field"}
    assert parts == [
        ("bq:mails:active", "list", "processing"),
        ("bq:mails:delayed", "zset", "delayed"),
        ("bq:mails:failed", "set", "failed"),
        ("bq:mails:succeeded", "set", "completed"),
        ("bq:mails:waiting", "list", "waiting"),
    ]
    unacked = ({"key": "unacked", "type": "field"}, [("unacked_index", "zset", "processing")])
    assert unacked in of_library("celery")


def test_jobs_that_are_pickled() -> None:
    """Neither the name of huey's list nor any JSON says that it is a queue: what Python pickles in it does; scores of a
    zset that are no times are ranks."""
    assert of_library("huey") == [
        (None, [("huey.redis.mails", "list", "waiting")]),
        (None, [("huey.redis.urgent", "zset", "waiting")]),
        (None, [("huey.schedule.mails", "zset", "delayed")]),
    ]


def test_ids_that_are_a_part_of_members() -> None:
    """RQ's `wip` holds job:execution: it belongs to the records of the jobs, and the layout says how to cut it."""
    (folder,) = (FIXTURES / "layouts").glob("rq-*")
    found = [tomllib.loads(g.layout) for g in guess(folder / "evidence.rdb", Described(), READING) if g.layout]
    (form,) = (form for document in found for form in document["layout"] if form["name"] == "rq")
    assert form["record"]["key"] == "rq:job:{id}"
    assert [(s["key"], s["member"]) for s in form["structure"] if "member" in s] == [("rq:wip:mails", "{id}:{rest}")]


def test_cached_hashes_are_no_jobs(tmp_path: Path) -> None:
    """Numbers in a list that are fields of some hash beside it are no ids where the values are no JSON objects."""
    keys = {b"app:recent": [b"1", b"2"], b"app:counts": {b"1": b"17", b"2": b"4"}}
    assert guess(dump(tmp_path, keys), Described(), READING) == []
