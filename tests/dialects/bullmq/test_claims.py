"""Which key is whose, where names alone cannot tell."""

from __future__ import annotations

from typing import Any

import pytest

from jobsleuth.dialects import Options


def _queues(evidence: Any) -> set[tuple[int, str, str]]:
    return {(q["db"], q["namespace"], q["queue"]) for q in evidence.rows("queues")}


def _states(evidence: Any) -> dict[tuple[str, str], str]:
    return {(queue, job): row["state"] for (_, _, queue, job), row in evidence.jobs.items()}


def test_other_peoples_keys_are_left_alone(rdb: Any) -> None:
    """An application that uses the same words for its own lists, sets and counters is no queue."""
    rdb.db(0)
    rdb.put(b"orders:completed", {b"41": 5.0, b"42": 6.0})
    rdb.put(b"orders:failed", {b"43": 7.0})
    for number in (b"41", b"42", b"43"):
        rdb.put(b"orders:" + number, {b"customer": b"7", b"data": b"x", b"name": b"y"})
    for number in range(200):
        rdb.put(b"user:%d:id" % number, b"%d" % number)
        rdb.put(b"user:%d:meta" % number, {b"version": b"3"} if number % 2 else {b"title": b"t"})
    # Bee-Queue: a counter, lists and a zset of ids whose jobs lie in one hash.
    rdb.put(b"bq:mail:id", b"9")
    rdb.put(b"bq:mail:active", [b"1", b"2"])
    rdb.put(b"bq:mail:delayed", {b"3": 1.7e12})
    rdb.put(b"bq:mail:jobs", {b"1": b"{}", b"2": b"{}", b"3": b"{}"})
    evidence = rdb.read()
    assert _queues(evidence) == set()
    assert evidence.role("orders:41") is None
    assert evidence.role("bq:mail:active") is None


def test_structures_and_jobs_alone_make_a_queue(rdb: Any) -> None:
    """`meta`, `id` and `events` evicted: a list whose members are whole jobs is enough."""
    rdb.db(0)
    rdb.put(b"bull:left:wait", [b"2", b"1"])
    rdb.job(b"bull:left:1")
    evidence = rdb.read()
    assert _queues(evidence) == {(0, "bull", "left")}
    assert _states(evidence) == {("left", "1"): "waiting", ("left", "2"): "waiting"}
    assert [r["has_record"] for r in evidence.rows("jobs")] == [True, False]


def test_keys_that_another_dialect_took_are_not_claimed(rdb: Any) -> None:
    """`free` is the limit: no claim, and no evidence either."""
    rdb.db(0)
    rdb.queue(b"bull:a")
    rdb.queue(b"bull:b")
    rdb.job(b"bull:a:1")
    evidence = rdb.read(free=lambda key: not key.startswith(b"bull:a"))
    assert _queues(evidence) == {(0, "bull", "b")}
    assert evidence.role("bull:a:1") is None


def test_nested_names_are_told_apart_by_who_lists_the_id(rdb: Any) -> None:
    """`p:a:b:7` is job `b:7` of `p:a` or job `7` of `p:a:b`: the list that holds the id says which; locks follow."""
    rdb.db(0)
    rdb.queue(b"p:a")
    rdb.queue(b"p:a:b")
    rdb.put(b"p:a:wait", [b"b:7", b"plain"])
    rdb.put(b"p:a:b:active", [b"8"])
    for key in (b"p:a:b:7", b"p:a:plain", b"p:a:b:8"):
        rdb.job(key)
    rdb.put(b"p:a:b:7:lock", b"token-7", 1_700_000_010_000)
    rdb.put(b"p:a:b:8:lock", b"token-8", 1_700_000_010_000)
    evidence = rdb.read()
    assert _states(evidence) == {("a", "b:7"): "waiting", ("a", "plain"): "waiting", ("b", "8"): "active"}
    locks = {(w["namespace"], w["queue"], w["job_id"]): w["worker_id"] for w in evidence.rows("workers")}
    assert locks == {("p", "a", "b:7"): "token-7", ("p:a", "b", "8"): "token-8"}
    assert not [note for notes in evidence.claims.notes.values() for note in notes if "would fit" in note]


def test_nested_orphans_are_told_apart_by_their_own_fields(rdb: Any) -> None:
    """Listed by nobody: `opts.jobId`, `rjk`, a child's `parent` decide; else the longest base, and a note says so."""
    rdb.db(0)
    rdb.queue(b"p:a")
    rdb.queue(b"p:a:b")
    rdb.job(b"p:a:b:own", opts=b'{"jobId":"b:own"}')
    rdb.job(b"p:a:b:named", opts=b'{"jobId":"named"}')
    rdb.job(b"p:a:b:parent")
    rdb.job(b"p:a:child", parent=b'{"id":"b:parent","queueKey":"p:a"}', parentKey=b"p:a:b:parent")
    rdb.job(b"p:a:b:nobody")
    evidence = rdb.read()
    assert set(_states(evidence)) == {
        ("a", "b:own"),
        ("b", "named"),
        ("a", "b:parent"),
        ("a", "child"),
        ("b", "nobody"),
    }
    inner = next(q for q in evidence.rows("queues") if q["queue"] == "b")
    assert "1 key would fit the queue at p:a as well" in inner["layout_why"]


def test_a_settled_prefix_divides_names(rdb: Any) -> None:
    """`--prefix` decides where the prefix ends."""
    rdb.db(0)
    rdb.queue(b"bull:tenant:mails")
    assert _queues(rdb.read()) == {(0, "bull", "tenant:mails")}
    assert _queues(rdb.read(Options(prefixes=(b"bull:tenant",)))) == {(0, "bull:tenant", "mails")}


def test_a_recorded_release_divides_names(rdb: Any) -> None:
    """5.12.12+ refuses a queue name with a colon, so its `meta.version` says that the prefix holds it."""
    rdb.db(0)
    rdb.queue(b"bull:tenant:mails", b"bullmq:5.81.5")
    assert _queues(rdb.read()) == {(0, "bull:tenant", "mails")}


def test_databases_do_not_mix(rdb: Any) -> None:
    """The same names in several databases, interleaved in the file, are several queues."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:1")
    rdb.db(7)
    rdb.queue(b"bull:q")
    rdb.put(b"bull:q:active", [b"1"])
    rdb.db(0)
    rdb.put(b"bull:q:wait", [b"1"])
    rdb.db(7)
    rdb.job(b"bull:q:1", name=b"seven")
    evidence = rdb.read()
    rows = {row["db"]: (row["state"], row["name"]) for row in evidence.rows("jobs")}
    assert rows == {0: ("waiting", "n"), 7: ("active", "seven")}


def test_ids_that_look_like_keys_of_the_queue_are_jobs(rdb: Any) -> None:
    """A type tells: a hash called `completed`, `1:lock` or `x:logs` is a job, and its lock is a lock."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    ids = [b"completed", b"1:lock", b"x:logs", b"y:failed", b"de:z", b"metrics:a:b", b"dn:k", b"repeat:s:5"]
    for name in ids:
        rdb.job(b"bull:q:" + name)
    rdb.put(b"bull:q:wait", [*ids, b"done:processed"])
    # A ghost that was fetched, and whose id ends like a map of children.
    rdb.put(b"bull:q:done:processed", {b"processedOn": b"1699999999000", b"ats": b"1"})
    rdb.put(b"bull:q:1:lock:lock", b"token", 1_700_000_010_000)
    rdb.put(b"bull:q:de:z:lock", b"other", 1_700_000_010_000)
    rdb.put(b"bull:q:de:gone:lock", b"1:lock")
    evidence = rdb.read()
    assert _states(evidence) == {("q", name.decode()): "waiting" for name in [*ids, b"done:processed"]}
    assert all(row["has_record"] for row in evidence.rows("jobs"))
    assert {w["job_id"]: w["worker_id"] for w in evidence.rows("workers")} == {"1:lock": "token", "de:z": "other"}
    # No job `de:gone`: then it is a deduplication id with a colon.
    assert [(r["source_id"], r["target_id"]) for r in evidence.rows("relations")] == [("gone:lock", "1:lock")]


@pytest.mark.parametrize("limit", [None, 0, 3])
def test_what_is_parked_is_kept(rdb: Any, limit: int | None) -> None:
    """All fields of a "next job" stand in `relations.rest`, its data as far as payloads are kept; the id that it will
    have is the target, the deduplication id the source. An expired one is gone."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    fields = {b"name": b"n", b"data": b'{"a":1}', b"opts": b'{"delay":5}', b"jid": b"9", b"pdk": b"bull:p:1"}
    rdb.put(b"bull:q:dn:la:test\xff", fields)
    rdb.put(b"bull:q:dn:gone", fields, expire_at=rdb.now_ms - 1)
    rows = [r for r in rdb.read(Options(payload_limit=limit)).rows("relations") if r["kind"] == "parked"]
    kept = {b"data": fields[b"data"][:limit]}
    assert [(r["via"], r["source_id"], r["source_id_bytes"], r["target_id"], r["key"]) for r in rows] == [
        ("dn", "la:test\\xff", b"la:test\xff", "9", "bull:q:dn:la:test\\xff")
    ]
    assert dict(rows[0]["rest"]) == {name.decode(): value for name, value in (fields | kept).items()}


def test_hashes_are_told_apart_by_their_fields(rdb: Any) -> None:
    """Job, fragment of a job, schedule, parked job, map of children, somebody else's."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:1")
    rdb.put(b"bull:q:scar", {b"processedOn": b"1699999999000", b"atm": b"1", b"ats": b"1", b"returnvalue": b"null"})
    rdb.put(b"bull:q:repeat:every:day", {b"name": b"n", b"every": b"86400000", b"ic": b"3"})
    rdb.put(b"bull:q:dn:latest", {b"name": b"n", b"data": b"{}", b"opts": b"{}", b"jid": b"9"})
    rdb.put(b"bull:q:1:processed", {b"bull:kids:7": b'"done"'})
    rdb.put(b"bull:q:settings", {b"theme": b"dark"})
    evidence = rdb.read()
    roles = {
        key: evidence.role(f"bull:q:{key}")
        for key in ("1", "scar", "repeat:every:day", "dn:latest", "1:processed", "settings")
    }
    assert roles == {
        "1": "job",
        "scar": "job",
        "repeat:every:day": "scheduler",
        "dn:latest": "dedup-next",
        "1:processed": "processed",
        "settings": "unplaced",
    }
    complete = {row["job_id"]: row["record_complete"] for row in evidence.rows("jobs")}
    assert complete == {"1": True, "scar": False}
    assert [(s["schedule_id"], s["spec"], s["next_at"]) for s in evidence.rows("schedules")] == [
        ("every:day", "every 86400000", None)
    ]


def test_the_message_relay_is_no_queue(fixture: Any) -> None:
    """Keys of the 6.4+ relay have a role and no queue; its nodes are servers with host and process."""
    evidence = fixture("v6-hostile")
    assert evidence.role("bull::relay:namespaces") == "relay"
    assert evidence.role("bull::relay:{fleet}:nodes") == "relay"
    node = next(w for w in evidence.rows("workers") if w["kind"] == "server")
    info = dict(evidence.raw_values[0, "bull::relay:{fleet}:node-1:node"]["value"])["info"]
    assert node["worker_id"] == "node-1"
    assert f'"host":"{node["host"]}","pid":{node["pid"]}' in info


def test_strangers_under_a_queue_are_unplaced_and_beside_it_unclaimed(fixture: Any) -> None:
    """The hostile dump's foreign keys, one by one."""
    for name in ("v5-hostile", "v6-hostile"):
        evidence = fixture(name)
        under = ("bull:orders:note", "bull:orders:settings", "bull:orders:wait:shadow", "bull:orders:ranking")
        assert {evidence.role(key) for key in under} == {"unplaced"}
        beside = ("bull", "bull:", "bull:orders", "kitchen:wait", "exams:failed", "article:meta", "article:id")
        beside += ("flags:paused", "audit:events", "session:42", "session:42:lock", "clicks")
        assert {evidence.role(key) for key in beside} == {None}


def test_parts_of_a_queue_make_no_queue_of_their_own(rdb: Any) -> None:
    """Deduplication ids, schedules, limiter groups called `meta-paused`, `id`, `stalled-check`; real queues stay."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    for name in (b"de:id", b"de:stalled-check", b"de:meta-paused", b"limiter:id", b"limiter:stalled-check"):
        rdb.put(b"bull:q:" + name, b"5")
    rdb.put(b"bull:q:repeat:meta", {b"name": b"n", b"every": b"1000", b"ic": b"1"})
    # Its prefix is `bull:q`, and its own settings say so.
    rdb.queue(b"bull:q:limiter", b"bullmq:5.81.5")
    rdb.put(b"bull:de:id", b"3")
    rdb.put(b"bull:de:stalled-check", b"1699999999000")
    evidence = rdb.read()
    assert _queues(evidence) == {(0, "bull", "q"), (0, "bull:q", "limiter"), (0, "bull", "de")}
    assert evidence.role("bull:q:de:meta-paused") == "dedup"
    assert evidence.role("bull:q:repeat:meta") == "scheduler"


def test_a_counter_beside_a_wait_list_is_a_queue(rdb: Any) -> None:
    """What is left of a Bull queue whose jobs were lost: an integer `id` and a list of ids."""
    rdb.db(0)
    rdb.put(b"bull:q:id", b"3")
    rdb.put(b"bull:q:wait", [b"3", b"2"])
    rdb.put(b"app:x:wait", [b"a"])
    assert _queues(rdb.read()) == {(0, "bull", "q")}


def test_a_job_called_meta_and_the_settings_in_it(rdb: Any) -> None:
    """A flow may add a job `meta` to a queue without settings; a Queue object then writes them into its record."""
    rdb.db(0)
    rdb.job(b"bull:q:meta", paused=b"1", concurrency=b"4")
    rdb.job(b"bull:q:1")
    rdb.put(b"bull:q:wait", [b"1", b"meta"])
    evidence = rdb.read()
    assert _states(evidence) == {("q", "1"): "waiting", ("q", "meta"): "waiting"}
    (queue,) = evidence.rows("queues")
    assert (queue["paused"], dict(queue["limits"])) == (True, {"concurrency": 4})


def test_a_key_of_a_wrong_type_is_told(rdb: Any) -> None:
    """A job called `failed` stands where the zset belongs: rows say where ids are, the queue says what fails."""
    rdb.db(0)
    rdb.queue(b"bull:q")
    rdb.job(b"bull:q:failed")
    rdb.put(b"bull:q:wait", [b"failed"])
    rdb.put(b"bull:q:events", b"no stream")
    evidence = rdb.read()
    assert _states(evidence) == {("q", "failed"): "waiting"}
    why = evidence.rows("queues")[0]["layout_why"]
    assert "`failed` is no zset: the library's own getState fails for every job not found in completed" in why
    assert "`events` is no stream" in why
