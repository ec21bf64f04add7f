"""Secrets planted in every place of a dump, and a search for them in all that a redacted run writes."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from jobsleuth.cli.main import main

Run = Callable[..., subprocess.CompletedProcess[str]]
NOW = 1_772_417_647_000
PLAIN = "plaintext-of-the-application"
"""Nothing that looks like a secret: it goes only where a whole value goes."""
SECRETS = {
    "payload": f"{PLAIN}-payload",
    "result": f"{PLAIN}-result",
    "error": f"{PLAIN}-error",
    "stack": f"{PLAIN}-stack",
    "progress": f"{PLAIN}-progress",
    "log": f"{PLAIN}-log",
    "event": f"{PLAIN}-event",
    "asynq payload": f"{PLAIN}-asynqpayload",
    "asynq error": f"{PLAIN}-asynqerror",
    "template": f"{PLAIN}-template",
    "mail as id": "ann.smith@example.com",
    "mail in name": "bob@example.org",
    "token in key": "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "jwt in options": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r",
    "password in aux": "s3cr3t-passw0rd",
    "aux called a secret": "correct-horse",
    "mail in version": "dora@example.net",
    "field called a secret": "battery staple",
    "hex in unique key": "d41d8cd98f00b204e9800998ecf8427e",
    "mail in queue": "carol@example.net",
}
S = SECRETS


def hashed(key: str, **fields: str) -> dict[str, Any]:
    return {"db": 0, "key": key, "type": "hash", "value": [[name, value] for name, value in fields.items()]}


def field(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data


def keyspace() -> str:
    """A BullMQ queue and an Asynq queue with something wrong in each, as a keyspace export."""
    mail, q = "bull:mail", f"bull:{S['mail in queue']}"
    job = {
        "name": f"send to {S['mail in name']}",
        "data": json.dumps({"text": S["payload"]}),
        "opts": json.dumps({"attempts": 3, "auth": S["jwt in options"]}),
        "timestamp": str(NOW - 60_000),
        "processedOn": str(NOW - 50_000),
        "atm": "1",
        "ats": "1",
        "progress": json.dumps(S["progress"]),
        "apiToken": S["field called a secret"],
    }
    failed = {
        **job,
        "failedReason": S["error"],
        "stacktrace": json.dumps([f"Error: {S['stack']}"]),
        "returnvalue": json.dumps(S["result"]),
        "finishedOn": str(NOW - 40_000),
    }
    message = b"".join(
        [
            field(1, b"email:send"),
            field(2, S["asynq payload"].encode()),
            field(3, b"task-1"),
            field(4, b"default"),
            field(7, S["asynq error"].encode()),
            field(9, f"asynq:{{default}}:unique:email:send:{S['hex in unique key']}".encode()),
        ]
    )
    keys = [
        hashed(f"{mail}:meta", version="bullmq:5.30.0"),
        {"db": 0, "key": f"{mail}:active", "type": "list", "value": [S["mail as id"], "gone@example.com"]},
        {"db": 0, "key": f"{mail}:failed", "type": "zset", "value": [["job-2", str(NOW - 40_000)]]},
        hashed(f"{mail}:{S['mail as id']}", **job),
        hashed(f"{mail}:job-2", **failed),
        hashed(f"{mail}:lost-1", **job),
        {"db": 0, "key": f"{mail}:job-2:logs", "type": "list", "value": [S["log"]]},
        {
            "db": 0,
            "key": f"{mail}:events",
            "type": "stream",
            "value": {
                "entries": [
                    [f"{NOW - 45_000}-0", [["event", "progress"], ["jobId", "job-2"], ["data", S["event"]]]],
                    [f"{NOW - 40_000}-0", [["event", "failed"], ["jobId", "job-2"], ["failedReason", S["error"]]]],
                ],
                "last_id": f"{NOW - 40_000}-0",
                "entries_added": 2,
                "max_deleted_id": "0-0",
                "groups": [],
            },
        },
        {"db": 0, "key": f"{mail}:repeat", "type": "zset", "value": [["nightly", str(NOW + 60_000)]]},
        hashed(f"{mail}:repeat:nightly", name="report", every="60000", data=json.dumps(S["template"])),
        {"db": 0, "key": f"{mail}:de:{S['token in key']}", "type": "string", "value": "lost-1"},
        {"db": 0, "key": f"session:{S['token in key']}", "type": "string", "value": "x"},
        hashed(f"{q}:meta", version="bullmq:5.30.0"),
        {"db": 0, "key": f"{q}:wait", "type": "list", "value": ["1"]},
        {"db": 0, "key": "asynq:queues", "type": "set", "value": ["default"]},
        {"db": 0, "key": "asynq:{default}:retry", "type": "zset", "value": [["task-1", str((NOW - 900_000) // 1000)]]},
        {
            "db": 0,
            "key": "asynq:{default}:t:task-1",
            "type": "hash",
            "value": [["msg", {"b64": base64.b64encode(message).decode()}], ["state", "retry"]],
        },
    ]
    head = {
        "format": "jobsleuth-keyspace",
        "version": 1,
        "started_at_ms": NOW,
        "finished_at_ms": NOW,
        "redis_version": "7.4.1",
        "atomic": True,
        "as_of_ms": NOW,
    }
    return "".join(json.dumps(line) + "\n" for line in [head, *keys, {"end": True, "keys": len(keys)}])


def snapshot() -> bytes:
    """An RDB file, version 11, of AUX fields only and without a checksum: AUX names and texts are free."""
    aux = {
        "redis-ver": f"7.4.1-{S['mail in version']}",
        "ctime": str(NOW // 1000),
        "note": f"password={S['password in aux']}",
        "master-secret": S["aux called a secret"],
    }
    strings = [text.encode() for pair in aux.items() for text in pair]
    assert all(len(text) < 64 for text in strings)
    fields = [bytes([len(text)]) + text for text in strings]
    pairs = zip(fields[::2], fields[1::2], strict=True)
    return b"REDIS0011" + b"".join(b"\xfa" + name + value for name, value in pairs) + b"\xff" + bytes(8)


@pytest.fixture(scope="module")
def desk(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The dump, a case of it and a redacted case."""
    folder = tmp_path_factory.mktemp("redaction")
    (folder / "dump.ndjson").write_text(keyspace())
    (folder / "aux.rdb").write_bytes(snapshot())
    for words in (["--out", "plain"], ["--out", "redacted", "--redact-key", "key"]):
        done = run("analyze", "dump.ndjson", "aux.rdb", *words, cwd=folder)
        assert (done.returncode, done.stderr) == (0, "")
        if "redacted" in words:
            assert leaks(done.stdout) == []
    return folder


def leaks(text: str) -> list[str]:
    return sorted(
        {name for name, secret in SECRETS.items() if secret in text} | ({"gone"} if "gone@" in text else set())
    )


def told(case: Path) -> str:
    """All that is in a case, decoded."""
    parts = [(case / "manifest.json").read_text(), (case / "report.html").read_text()]
    for file in sorted(case.rglob("*.parquet")):
        parts += [str(pq.read_table(file).to_pydict()), file.read_bytes().decode("latin-1")]
    return "\n".join(parts)


def inside(*words: str) -> tuple[int, str]:
    """The command line in this process: a hundred of them start faster so. Exit code, and all that was said."""
    said = io.StringIO()
    given, sys.argv = sys.argv, ["jobsleuth", *words]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            return main(), said.getvalue()
    finally:
        sys.argv = given


def outputs(case: str, *redact: str) -> str:
    """What every reading command says of the case, in every format."""
    ids = json.loads(inside("jobs", case, "--json", *redact)[1])
    commands: list[list[str]] = [
        *(["check", case, "--format", fmt] for fmt in ("text", "json", "junit", "sarif", "github", "markdown")),
        ["check", case, "--all"],
        ["baseline", case],
        ["report", case],
        ["report", case, "--show-payload", "500"],
        ["report", case, "--json"],
        ["queues", case],
        ["queues", case, "--names", "--json"],
        *(["jobs", case, "--format", fmt] for fmt in ("table", "csv", "ndjson", "json")),
        ["keys", case, "--top", "0"],
        ["keys", case, "--group-by", "prefix", "--prefix-depth", "3"],
        *(["export", case, "--lost", "--stuck", "--failed", "--format", fmt] for fmt in ("ndjson", "csv", "json")),
        *(
            ["sql", case, f"from {table}", "--json"]
            for table in ("jobs", "keys", "events", "logs", "schedules", "findings")
        ),
        *(
            ["sql", case, f"from {table}"]
            for table in ("workers", "relations", "membership", "queues", "evidence", "warnings")
        ),
        *(["job", case, "--queue", i["queue"], "--json", "--", i["job_id"]] for i in ids),
        *(["job", case, "--queue", i["queue"], "--decode-raw", "--", i["job_id"]] for i in ids),
    ]
    said = []
    for words in commands:
        end = words.index("--") if "--" in words else len(words)
        code, text = inside(*words[:end], *redact, *words[end:])
        assert code in (0, 1), (words, text)
        said.append(text)
    return "\n".join(said)


def test_the_secrets_are_really_there(run: Run, desk: Path) -> None:
    """Without redaction every planted secret is in the case, so that their absence means something."""
    assert set(leaks(told(desk / "plain"))) >= set(SECRETS)


def test_a_redacted_case_holds_none_of_them(desk: Path) -> None:
    """No file of the case, decoded or as bytes: tables, manifest, page."""
    assert leaks(told(desk / "redacted")) == []


def test_no_output_of_a_redacted_case_holds_one(desk: Path) -> None:
    """Every reading command, every format."""
    assert leaks(outputs(str(desk / "redacted"))) == []


def test_a_plain_case_is_shown_redacted(desk: Path) -> None:
    """The same commands with --redact on the case that holds the secrets."""
    assert leaks(outputs(str(desk / "plain"), "--redact-key", str(desk / "key"))) == []


def test_the_reports_show_no_payload_unasked(run: Run, desk: Path) -> None:
    """Page and CI formats hold no payload, result, progress, log or schedule's data; asked for, they do."""
    stored = ("payload", "result", "progress", "log", "event", "asynq payload", "template")
    said = run("report", "plain", cwd=desk).stdout
    for fmt in ("json", "junit", "sarif", "github", "markdown", "text"):
        said += run("check", "plain", "--format", fmt, cwd=desk).stdout
    assert set(leaks(said)) & set(stored) == set()
    assert "payload" in leaks(run("report", "plain", "--show-payload", "200", cwd=desk).stdout)
    told_of = run("job", "plain", "lost-1", "--queue", "mail", cwd=desk).stdout
    assert "payload" in leaks(told_of)
    assert "payload" not in leaks(
        run("job", "plain", "lost-1", "--queue", "mail", "--show-payload", "0", cwd=desk).stdout
    )


def commands() -> bytes:
    """An append-only file in which a job comes, fails and goes, with secrets where the commands hold them."""

    def said(*words: str) -> bytes:
        parts = [word.encode() for word in words]
        return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(part), part) for part in parts)

    mail, who = "bull:mail", S["mail as id"]
    stack = json.dumps([S["stack"]])
    return b"".join(
        [
            said("SELECT", "0"),
            b"#TS:%d\r\n" % (NOW // 1000 - 60),
            said("HSET", f"{mail}:meta", "version", "bullmq:5.30.0"),
            said("HSET", f"{mail}:{who}", "name", S["mail in name"], "data", json.dumps({"text": S["payload"]})),
            said("LPUSH", f"{mail}:wait", who),
            said("RPOPLPUSH", f"{mail}:wait", f"{mail}:active"),
            said("SET", f"{mail}:{who}:lock", S["token in key"], "PX", "30000"),
            said("HSET", f"{mail}:{who}", "failedReason", S["error"], "stacktrace", stack),
            said("LREM", f"{mail}:active", "0", who),
            said("ZADD", f"{mail}:failed", str(NOW - 40_000), who),
            said("DEL", f"{mail}:{who}"),
            said("HSET", f"{mail}:job-9", "name", "n", "data", json.dumps(S["payload"]), "failedReason", S["error"]),
            said("LPUSH", f"{mail}:wait", "job-9"),
            b"#TS:%d\r\n" % (NOW // 1000),
            said("SET", "a", "b"),
        ]
    )


def test_the_moves_in_an_append_only_file(run: Run, desk: Path) -> None:
    """A case of commands, redacted when made and when shown: neither its files nor the job's timeline hold a secret."""
    (desk / "dump.aof").write_bytes(commands())
    for words in (["--out", "moves"], ["--out", "redacted-moves", "--redact-key", "key"]):
        assert run("analyze", "dump.aof", *words, "-q", cwd=desk).returncode == 0
    assert {"mail as id", "payload", "error", "token in key"} <= set(leaks(told(desk / "moves")))
    assert leaks(told(desk / "redacted-moves")) == []
    listed = json.loads(run("sql", "redacted-moves", "from transitions", "--json", cwd=desk).stdout)
    (who,) = {row["job_id"] for row in listed} - {"job-9"}
    for words in (["moves", who, "--redact-key", "key"], ["redacted-moves", who]):
        for fmt in ([], ["--json"]):
            done = run("timeline", *words, *fmt, cwd=desk)
            assert (done.returncode, done.stderr) == (0, "")
            assert leaks(done.stdout) == []
            assert who in done.stdout


def test_both_ways_agree_and_find_the_same(run: Run, desk: Path) -> None:
    """One key: a case redacted when made and one redacted when shown hold the same digests and the same findings."""
    made = json.loads(run("check", "redacted", "--json", cwd=desk).stdout)["findings"]
    shown = json.loads(run("check", "plain", "--json", "--redact-key", "key", cwd=desk).stdout)["findings"]
    plain = json.loads(run("check", "plain", "--json", cwd=desk).stdout)["findings"]

    def kinds(findings: list[dict[str, Any]]) -> list[tuple[str, str]]:
        return sorted((f["check_id"], f["severity"]) for f in findings)

    assert kinds(made) == kinds(shown) == kinds(plain)
    assert {f["job_id"] for f in made} == {f["job_id"] for f in shown}
    jobs = [
        run("jobs", *words, "--format", "csv", cwd=desk).stdout
        for words in (["redacted"], ["plain", "--redact-key", "key"])
    ]
    assert jobs[0] == jobs[1]


def test_a_baseline_for_others(run: Run, desk: Path) -> None:
    """Made with a kept key it holds no secret, and a check with that key knows every finding in it; one whose key is
    gone says that findings about redacted names are lost on it. --json tells what was written."""
    kept = ("--redact-key", "key")
    wrote = run("baseline", "plain", *kept, "--out", "known.json", "--json", cwd=desk)
    text = (desk / "known.json").read_text()
    assert leaks(text) == [] and "redacted-" in text
    assert json.loads(wrote.stdout) == {"out": "known.json", "findings": len(json.loads(text)["findings"])}
    assert (wrote.returncode, wrote.stderr) == (0, "")
    assert run("baseline", "plain", *kept, "--json", cwd=desk).stdout == text
    for case in (["plain", *kept], ["redacted"]):
        judged = run("check", *case, "--baseline", "known.json", "--fail-on", "info", "--json", cwd=desk)
        assert (judged.returncode, json.loads(judged.stdout)["findings"]) == (0, [])
    assert run("baseline", "redacted", cwd=desk).stdout == text
    unkept = run("baseline", "plain", "--redact", cwd=desk)
    assert leaks(unkept.stdout) == []
    assert "known to no other run: --redact-key keeps its key" in unkept.stderr
    for words in (["plain"], ["plain", *kept], ["redacted"], ["redacted", "--redact"]):
        assert run("baseline", *words, cwd=desk).stderr == ""


def test_the_key(run: Run, desk: Path) -> None:
    """Made for its owner only, in no case, and drawn anew for each run that names none."""
    key = desk / "key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert key.read_text().strip() not in told(desk / "redacted")
    made = [run("jobs", "plain", "--format", "csv", "--redact", cwd=desk).stdout for _ in range(2)]
    assert made[0] != made[1]
    (desk / "short").write_text("abc")
    done = run("jobs", "plain", "--redact-key", "short", cwd=desk)
    assert done.returncode == 2
    assert "16 bytes" in done.stderr
    assert json.loads((desk / "redacted" / "manifest.json").read_text())["options"]["redacted_with"]
