"""Every element of every structure against what the Redis server itself replied."""

from __future__ import annotations

import base64
import re
from typing import Any

TYPES = {
    "wait": "list",
    "paused": "list",
    "active": "list",
    "delayed": "zset",
    "prioritized": "zset",
    "completed": "zset",
    "failed": "zset",
    "waiting-children": "zset",
    "stalled": "set",
    "marker": "zset",
    "repeat": "zset",
    "priority": "zset",
    "limiter:limited": "set",
    "limiter:ann:limited": "set",
    "wait:added": "list",
}


def _bytes(value: Any) -> bytes:
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def _text(value: Any) -> str:
    return _bytes(value).decode("utf-8", "backslashreplace")


def _structures(evidence: Any) -> dict[tuple[int, str], list[tuple[Any, ...]]]:
    """(db, key) → (position, member, score) of every structure of a declared queue."""
    out = {}
    for queue in evidence.library["queues"].values():
        for name, kind in TYPES.items():
            place = (queue["db"], f"{queue['prefix']}:{queue['queue']}:{name}")
            stored = evidence.raw_values.get(place)
            if stored is None or stored["type"] != kind:
                continue
            if kind == "zset":
                out[place] = [(n, _text(m), float(s)) for n, (m, s) in enumerate(stored["value"])]
            elif kind == "list":
                out[place] = [(n, _text(m), None) for n, m in enumerate(stored["value"])]
            else:
                out[place] = sorted((None, _text(m), None) for m in stored["value"])
    return out


def test_membership_is_every_element_in_place(evidence: Any) -> None:
    """Positions from the head of each list, ranks and scores of each zset, as LRANGE and ZRANGE gave them."""
    actual: dict[tuple[int, str], list[tuple[Any, ...]]] = {}
    for row in evidence.rows("membership"):
        actual.setdefault((row["db"], row["key"]), []).append((row["position"], row["job_id"], row["score"]))
    for rows in actual.values():
        rows.sort(key=lambda r: (r[0] is not None and r[0], r[1]))
    assert _structures(evidence) == actual


def test_scores_decode_by_the_librarys_rule(evidence: Any) -> None:
    """Delayed: due = floor(score / 4096), tie-breaker in the low 12 bits; prioritized: counter below 2^32."""
    for row in evidence.rows("membership"):
        if row["structure"] == "delayed":
            packed = int(row["score"])
            assert (packed >> 12, packed & 4095) == (row["due_at"], row["sequence"])
        elif row["structure"] == "prioritized":
            assert (None, int(row["score"]) % 2**32) == (row["due_at"], row["sequence"])
        elif row["structure"] in ("completed", "failed", "waiting-children", "repeat"):
            assert (int(row["score"]), None) == (row["due_at"], row["sequence"])
        else:
            assert row["sequence"] is None


def test_only_the_eight_structures_decide(evidence: Any) -> None:
    """`decides_state` marks what getState looks at."""
    deciding = {m["structure"] for m in evidence.rows("membership") if m["decides_state"]}
    others = {m["structure"] for m in evidence.rows("membership") if not m["decides_state"]}
    assert not deciding & others
    assert not others & {
        "wait",
        "paused",
        "active",
        "delayed",
        "prioritized",
        "completed",
        "failed",
        "waiting-children",
    }


def test_delayed_jobs_are_scheduled_at_their_due_time(evidence: Any) -> None:
    """`scheduled_at` is the due time of a delayed job and of no other."""
    due = {
        (m["db"], m["namespace"], m["queue"], m["job_id"]): m["due_at"]
        for m in evidence.rows("membership")
        if m["structure"] == "delayed"
    }
    for place, row in evidence.jobs.items():
        assert row["scheduled_at"] == (due[place] if row["state"] == "delayed" else None)


_COLUMN_OF_FIELD = {
    "name": "name",
    "data": "payload",
    "timestamp": "created_at",
    "delay": "delay_ms",
    "priority": "priority",
    "processedOn": "started_at",
    "finishedOn": "finished_at",
    "returnvalue": "result",
    "failedReason": "error",
    "stacktrace": "stacktrace",
    "progress": "progress",
    "ats": "attempts_started",
    "stc": "stalled_count",
    "stalledCounter": "stalled_count",
    "pb": "worker_name",
    "defa": "deferred_failure",
    "rjk": "schedule_id",
    "deid": "deduplication_id",
}


def test_no_stored_field_of_a_job_is_lost(evidence: Any) -> None:
    """Each field of each job hash stands in its column or, byte for byte, in `rest`."""
    seen = 0
    for row in evidence.rows("jobs"):
        if not row["has_record"]:
            continue
        stored = evidence.raw_values[row["db"], row["key"]]["value"]
        rest = dict(row["rest"])
        for field, value in stored:
            name, value = _text(field), _bytes(value)
            if name in rest:
                assert value == rest[name]
                continue
            shown = row[_COLUMN_OF_FIELD.get(name, "attempts" if name in ("atm", "attemptsMade") else "")]
            assert value == (shown if isinstance(shown, bytes) else str(shown).encode()), name
            seen += 1
        assert rest.keys() <= {_text(field) for field, _ in stored}
    assert seen > 0


def test_payload_sizes_are_whole(evidence: Any) -> None:
    """`payload_bytes` is the length of `data` as stored."""
    for row in evidence.rows("jobs"):
        if row["has_record"]:
            stored = {_text(f): _bytes(v) for f, v in evidence.raw_values[row["db"], row["key"]]["value"]}
            assert row["payload_bytes"] == (len(stored["data"]) if "data" in stored else None)


def test_locks_are_the_servers_keys(evidence: Any) -> None:
    """Token, end and validity of each lock that the server had, and more only where it had run out."""
    locks = {(w["db"], w["key"]): w for w in evidence.rows("workers") if w["kind"] == "lock"}
    expected = {
        place: (_text(k["value"]), k["expire_at_ms"])
        for place, k in evidence.raw_values.items()
        if place[1].endswith(":lock")
        and k["type"] == "string"
        # Deduplication ids may end so; the test of their relations has them all.
        and evidence.role(place[1], place[0]) not in (None, "dedup")
    }
    actual = {place: (lock["worker_id"], lock["valid_until"]) for place, lock in locks.items() if place in expected}
    assert expected == actual
    as_of = evidence.keyspace.as_of.ms
    for place, lock in locks.items():
        assert lock["valid"] == (lock["valid_until"] is None or lock["valid_until"] > as_of)
        assert place in expected or not lock["valid"]
        assert lock["key"] == f"{lock['namespace']}:{lock['queue']}:{lock['job_id']}:lock"


def test_events_are_the_streams(evidence: Any) -> None:
    """All entries of all event streams, a parent's own of early flows too: ids, names, jobs and other fields."""
    expected = {}
    streams = []
    own_keys = {f"{q['prefix']}:{q['queue']}:events" for q in evidence.library["queues"].values()}
    for queue in evidence.library["queues"].values():
        base = f"{queue['prefix']}:{queue['queue']}"
        own = evidence.raw_values.get((queue["db"], f"{base}:events"))
        streams += [(queue, own)] if own is not None and own["type"] == "stream" else []
        if evidence.library["version"].startswith("1.2"):
            of_parents = re.compile(f"{re.escape(base)}:[^:]+:events")
            streams += [
                (queue, k)
                for (db, key), k in evidence.raw_values.items()
                if db == queue["db"] and k["type"] == "stream" and of_parents.fullmatch(key) and key not in own_keys
            ]
    for queue, stored in streams:
        for entry, fields in stored["value"]["entries"]:
            pairs = {_text(f): _text(v) for f, v in fields}
            place = (queue["db"], queue["prefix"], queue["queue"], entry)
            expected[place] = (pairs.pop("event", None), pairs.pop("jobId", None), int(entry.split("-")[0]), pairs)
    actual = {
        (e["db"], e["namespace"], e["queue"], e["stream_id"]): (
            e["event"],
            e["job_id"],
            e["at"],
            {k: v for k, v in dict(e["fields"]).items() if k not in ("event", "jobId")},
        )
        for e in evidence.rows("events")
    }
    assert expected == actual


def test_counters_and_limits_are_the_servers(evidence: Any) -> None:
    """`id`, `pc`, `meta` settings and the limiter as stored."""
    for queue in evidence.rows("queues"):
        base = f"{queue['namespace']}:{queue['queue']}"
        counters, limits = dict(queue["counters"]), dict(queue["limits"])
        for name in ("id", "pc"):
            stored = evidence.raw_values.get((queue["db"], f"{base}:{name}"))
            assert counters.get(name) == (int(stored["value"]) if stored and stored["type"] == "string" else None)
        meta = dict(evidence.raw_values.get((queue["db"], f"{base}:meta"), {"value": []})["value"])
        for field, name in (("concurrency", "concurrency"), ("max", "max"), ("duration", "duration_ms")):
            assert limits.get(name) == (int(meta[field]) if field in meta else None)
        limiter = evidence.raw_values.get((queue["db"], f"{base}:limiter"))
        if limiter and limiter["type"] == "string":
            assert limits["limiter"] == int(limiter["value"])
            assert ("limiter_ttl_ms" in limits) == (limiter["expire_at_ms"] is not None)


def test_deduplication_relations_are_the_servers_keys(evidence: Any) -> None:
    """Each `de:` key is one relation from its id to the job that owns it."""
    expected = {
        place: (_text(k["value"]), k["expire_at_ms"])
        for place, k in evidence.raw_values.items()
        if ":de:" in place[1] and k["type"] == "string"
    }
    actual = {
        (r["db"], r["key"]): (r["target_id"], r["valid_until"])
        for r in evidence.rows("relations")
        if r["kind"] == "deduplication"
    }
    assert expected == actual


def test_parent_relations_by_collections_are_the_servers(evidence: Any) -> None:
    """Each member of `dependencies`, `processed`, `failed` and `unsuccessful` is one relation that spells its key."""
    kinds = {"dependencies": "set", "processed": "hash", "failed": "hash", "unsuccessful": "zset"}
    expected = set()
    for (db, key), stored in evidence.raw_values.items():
        ending = key.rsplit(":", 1)[-1]
        if kinds.get(ending) != stored["type"] or evidence.role(key, db) in (
            None,
            "unplaced",
            "failed",
            "job",
            "metrics",
            "scheduler",
        ):
            continue
        members = [m if stored["type"] == "set" else m[0] for m in stored["value"]]
        expected |= {(db, key, ending, _text(m)) for m in members}
    actual = {
        (r["db"], r["key"], r["via"], f"{r['source_namespace']}:{r['source_queue']}:{r['source_id']}")
        for r in evidence.rows("relations")
        if r["kind"] == "parent" and r["via"] != "parentKey"
    }
    assert expected == actual
