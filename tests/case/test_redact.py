"""Redaction: secrets go, what tells equal from different stays, and a redacted case is judged as the plain one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobsleuth.case import EvidenceInfo, Redactor, open_case
from tests.reports.conftest import build, job, rows

KEY = b"0123456789abcdef0123456789abcdef"
REDACTOR = Redactor(KEY)
PLANTED = [
    "ann.smith+news@mail.example.co.uk",
    "o'neil@example.com",
    "user%40example.org",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NSJ9.dBjftJeZ4CVP-mB92K27uhbUJU1p1r",
    "sk_live_51HxQx8G2eZvKYlo2C",
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "d41d8cd98f00b204e9800998ecf8427e",
    "xoxb-1234567890-abcdefghij",
    "aGVsbG8gd29ybGQgdGhpcyBpcyBhIHNlY3JldA==",
]
HARMLESS = [
    "48211",
    "bull:emails:48211",
    "bull:token:wait",
    "asynq:{default}:t:7c9e6679-7425-40de-944b-e07fc1f90ae7",
    "order-2024-11-30-customer-123456",
    "SendOrderConfirmationToCustomer2024",
    "/usr/local/lib/node_modules/Bullmq2/dist/classes",
    "repeat:nightly:1796094000000",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV",
]


@pytest.mark.parametrize("secret", PLANTED)
@pytest.mark.parametrize("around", ["{}", "failed for {} twice", "bull:q:{}:lock", '{{"to":"{}"}}', "'{}',"])
def test_what_looks_like_a_secret_goes_wherever_it_stands(secret: str, around: str) -> None:
    """Alone, in a sentence, in a key, in JSON, in a list: no part of it of four letters or more is left."""
    shown = REDACTOR.text(around.format(secret))
    assert secret not in shown
    assert "redacted-" in shown
    assert not [piece for piece in secret.replace("@", ".").split(".") if len(piece) > 12 and piece in shown]


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_names_stay(text: str) -> None:
    """Ids, keys, paths and UUIDs are read by people and stay as they are."""
    assert REDACTOR.text(text) == text


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("password=hunter2", "hunter2"),
        ('{"api_key": "k1"}', "k1"),
        ('{\\"secret\\":\\"s3\\"}', "s3"),
        ("Authorization: Bearer abcdefghijk", "abcdefghijk"),
        ("redis://joe:pw@host:6379/0", "joe:pw"),
        ("token = t-1;", "t-1"),
        ('{"password": "correct horse, battery"}', "horse, battery"),
        ('{\\"password\\":\\"correct horse\\"}', "horse"),
        ('{"secret": "a \\"b\\" ccc"}', "ccc"),
        ("pwd='not one word'", "one word"),
        ('"Authorization": "Basic abc def"', "def"),
    ],
)
def test_what_is_called_a_secret_is_one(text: str, secret: str) -> None:
    """Short values are known by the name they are given."""
    assert secret not in REDACTOR.text(text)


TWICE = ["password=hunter2", "Bearer abcdefghijk", "x://a:b@c", '{"token": "a b"}', "pwd='a b'", '\\"pwd\\":\\"a\\"']


@pytest.mark.parametrize("text", [*PLANTED, *HARMLESS, *TWICE])
def test_a_second_pass_changes_nothing(text: str) -> None:
    """A redacted case can be shown with --redact again, under another key, and is the same."""
    once = REDACTOR.text(text)
    assert Redactor(b"another key of 32 bytes, or more").text(once) == once


def test_a_field_called_a_secret_is_one(tmp_path: Path) -> None:
    """Fields of a hash that no library knows, of an event, and AUX fields: the name says what the value does not."""
    fields = [("apiKey", b"k1 x"), ("colour", b"green"), ("session_id", b"7"), ("token", b"")]
    plain = build(tmp_path / "case", {"jobs": rows("jobs", job("q", "1", rest=fields))})
    shown = dict(open_case(plain.path, redact=REDACTOR).query("select rest from jobs").to_pylist()[0]["rest"])
    assert shown == {
        "apiKey": REDACTOR.digest("k1 x").encode(),
        "colour": b"green",
        "session_id": REDACTOR.digest("7").encode(),
        "token": b"",
    }
    aux = {"requirepass-secret": "tulip", "ctime": "1772417647", "note": "ask ann@example.com"}
    info = EvidenceInfo(
        0,
        "dump.rdb",
        "00",
        1,
        "rdb",
        redis_version="7.4-dora@example.net",
        aux=aux,
        modules=[{"name": "x@example.org"}],
    )
    told = REDACTOR.evidence(info)
    assert (told.aux["requirepass-secret"], told.aux["ctime"]) == (REDACTOR.digest("tulip"), "1772417647")
    assert "ann@" not in str(told) and "dora@" not in str(told) and "x@" not in str(told)
    assert REDACTOR.evidence(told) == told


def test_equal_values_stay_equal_and_keys_differ() -> None:
    """The same value under one key has one digest, in a name as in a payload; under another key another."""
    assert REDACTOR.text("ann@example.com") == REDACTOR.digest("ann@example.com") == REDACTOR.digest(b"ann@example.com")
    other = Redactor(b"another key of 32 bytes, or more")
    assert other.digest("x") != REDACTOR.digest("x")
    assert other.key_id != REDACTOR.key_id
    with pytest.raises(ValueError, match="16 bytes"):
        Redactor(b"short")


def test_a_case_is_shown_redacted_and_stays_as_it_was(tmp_path: Path) -> None:
    """Tables, queries and joins see digests only; JSON stays JSON of its kind, what is empty stays empty."""
    plain = build(
        tmp_path / "case",
        {
            "jobs": rows(
                "jobs",
                job(
                    "mail",
                    "ann@example.com",
                    payload=b'{"card":"4111"}',
                    payload_bytes=15,
                    result=b"[1,2]",
                    error="card 4111 refused",
                    stacktrace="[]",
                    progress="",
                    rest=[("returnvalue", b"4111"), ("opts", b'{"jobId":"ann@example.com"}')],
                ),
            ),
            "membership": rows("membership", {"namespace": "bull", "queue": "mail", "job_id": "ann@example.com"}),
            "logs": rows("logs", {"queue": "mail", "job_id": "ann@example.com", "line": "charged 4111"}),
        },
    )
    case = open_case(plain.path, redact=REDACTOR)
    one = case.query("select * from jobs").to_pylist()[0]
    assert one["job_id"] == REDACTOR.digest("ann@example.com")
    assert json.loads(one["payload"]) == {"redacted": REDACTOR.digest(b'{"card":"4111"}')}
    assert json.loads(one["result"]) == [REDACTOR.digest(b"[1,2]")]
    assert one["error"] == REDACTOR.digest("card 4111 refused")
    assert (one["stacktrace"], one["progress"]) == ("[]", "")
    assert dict(one["rest"]) == {
        "returnvalue": json.dumps(REDACTOR.digest(b"4111")).encode(),
        "opts": f'{{"jobId":"{REDACTOR.digest("ann@example.com")}"}}'.encode(),
    }
    joined = case.query("select count(*) as n from jobs join membership using (queue, job_id) join logs using (job_id)")
    assert joined.to_pylist() == [{"n": 1}]
    everything = str([case.arrow(name).to_pylist() for name in case.tables])
    assert "4111" not in everything and "ann@" not in everything
    assert "4111" in str(plain.arrow("jobs").to_pylist())


def test_bytes_that_nobody_could_read_go_whole(tmp_path: Path) -> None:
    """What a server's or schedule's own record held and could not be decoded may be anything, a payload among it."""
    details = [("type", "mail"), ("payload", "one 4111"), ("undecoded", "two 4111"), ("stored", "three 4111")]
    row = {"namespace": "asynq", "queue": "q", "kind": "worker", "details": details}
    case = open_case(build(tmp_path / "case", {"workers": rows("workers", row)}).path, redact=REDACTOR)
    shown = dict(case.query("select details from workers").to_pylist()[0]["details"])
    assert shown["type"] == "mail"
    assert "4111" not in str(shown)


def test_sql_cannot_reach_around_it(tmp_path: Path) -> None:
    """Neither the files nor a schema's own name lead to the plain values."""
    plain = build(tmp_path / "case", {"jobs": rows("jobs", job("q", "1", error="planted secret"))})
    case = open_case(plain.path, redact=REDACTOR)
    for query in (
        "select error from jobs",
        "select error from main.jobs",
        "select * from (from jobs) where error like 'plan%'",
    ):
        assert "planted" not in str(case.query(query).to_pylist())
