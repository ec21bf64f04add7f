"""`tools/scan_export.py` against real servers: what arrives there, what comes out, and that nothing changes."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import redis

from jobsleuth.case import TABLES
from jobsleuth.pipeline import AnalyzeOptions, analyze
from jobsleuth.sources import open_keyspace, snapshot
from tests.conftest import RedisServer

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "scan_export.py"
SIX = {"SCAN", "TYPE", "PTTL", "DUMP", "TIME", "INFO"}
FIXTURES = [
    ROOT / "fixtures" / "bullmq" / "v5-faults" / "evidence.rdb",
    ROOT / "fixtures" / "asynq" / "faults-0.26.0" / "evidence.rdb",
]

pytestmark = pytest.mark.integration


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@contextmanager
def server(folder: Path, *options: str, dump: Path | None = None) -> Iterator[tuple[RedisServer, int]]:
    folder.mkdir(parents=True)
    if dump is not None:
        shutil.copy(dump, folder / "dump.rdb")
    port = free_port()
    more = ["--port", str(port), "--bind", "127.0.0.1", "--enable-debug-command", "local", *options]
    started = RedisServer(folder, *more)
    try:
        yield started, port
    finally:
        started.stop()


@contextmanager
def watched(client: redis.Redis) -> Iterator[list[str]]:
    """Every command that arrives meanwhile, by MONITOR; those of the watcher itself apart."""
    seen: list[str] = []
    ready = threading.Event()
    mark = f"end-{os.getpid()}"

    def listen() -> None:
        with client.monitor() as monitor:
            ready.set()
            for command in monitor.listen():
                words = command["command"].split(" ")
                if mark in words:
                    return
                seen.append(words[0].upper())

    thread = threading.Thread(target=listen)
    thread.start()
    assert ready.wait(10)
    time.sleep(0.1)
    yield seen
    client.echo(mark)
    thread.join(10)
    assert not thread.is_alive()
    # The client that says the mark introduces itself, over the unix socket.
    while seen and seen[-1] == "CLIENT":
        seen.pop()


def tool(*arguments: object, check: bool = True, **environment: str) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, TOOL, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, env={**os.environ, **environment}, check=False)
    assert not check or done.returncode == 0, done.stderr.decode()
    return done


def lines_of(export: Path) -> list[dict[str, Any]]:
    text = export.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(text) if export.suffix == ".gz" else text).splitlines()]


def keys_of(lines: Sequence[dict[str, Any]]) -> Counter[tuple[int, str]]:
    return Counter((line["db"], line["key"]) for line in lines if "key" in line)


@pytest.fixture(scope="module")
def module() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scan_export", TOOL)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules["scan_export"] = loaded
    spec.loader.exec_module(loaded)
    return loaded


@pytest.mark.parametrize("dump", FIXTURES, ids=lambda p: p.parent.name)
def test_only_six_commands_arrive_and_nothing_changes(dump: Path, tmp_path: Path) -> None:
    """Under MONITOR the six commands and nothing else; the server's digest of all data is the same."""
    with server(tmp_path / "server", dump=dump) as (redis_server, port):
        client = redis_server.client()
        before = client.execute_command("DEBUG", "DIGEST")
        with watched(client) as seen:
            tool("-o", tmp_path / "e.ndjson", f"127.0.0.1:{port}")
        assert set(seen) == SIX
        assert client.execute_command("DEBUG", "DIGEST") == before
        size = client.dbsize()
    lines = lines_of(tmp_path / "e.ndjson")
    assert (lines[0]["format"], lines[0]["atomic"]) == ("jobsleuth-keyspace", False)
    assert len(keys_of(lines)) == size
    assert lines[-1]["keys"] == sum(keys_of(lines).values())
    assert lines[0]["started_at_ms"] <= lines[-1]["finished_at_ms"]


@pytest.mark.parametrize("dump", FIXTURES, ids=lambda p: p.parent.name)
def test_the_export_gives_the_tables_of_the_snapshot(dump: Path, tmp_path: Path) -> None:
    """The same server saved and exported: the same rows in every table, in the order of the export. Only what is said
    of the evidence differs: that it was no instant is told once, and what a moving job explains is only possible."""
    with server(tmp_path / "server", dump=dump) as (redis_server, port):
        saved = tmp_path / "saved.rdb"
        saved.write_bytes(redis_server.save())
        tool("-o", tmp_path / "e.ndjson.gz", f"127.0.0.1:{port}")
    options = AnalyzeOptions(as_of_ms=1_900_000_000_000)
    direct = analyze([saved], tmp_path / "direct", options)
    exported = analyze([tmp_path / "e.ndjson.gz"], tmp_path / "exported", options)
    without = {
        "keys": {"offset", "nbytes", "elements", "encoding"},
        "findings": {"certainty"},
        "checks": {"findings"},
    }
    for table in TABLES:
        expected: list[dict[str, Any]] = []
        actual: list[dict[str, Any]] = []
        for case, rows in ((direct, expected), (exported, actual)):
            for row in case.arrow(table.name).to_pylist():
                if str(row.get("check_id")) in ("EV001", "EV004", "EV007"):
                    continue
                if table.name == "findings":
                    facts = json.loads(row["details"])
                    row["details"] = {name: value for name, value in facts.items() if name != "nbytes"}
                rows.append({name: value for name, value in row.items() if name not in without.get(table.name, ())})
        assert sorted(map(repr, actual)) == sorted(map(repr, expected)), table.name
    found = exported.arrow("findings").to_pylist()
    assert [row["message"] for row in found if row["check_id"] == "EV007"] == [
        f"The evidence {tmp_path / 'e.ndjson.gz'} was read over a span of time, not at one instant"
    ]
    assert "EV007" not in direct.arrow("findings").column("check_id").to_pylist()
    assert {row["certainty"] for row in found if row["check_id"] == "MB001"} == {"possible"}
    info = exported.manifest.evidence[0]
    assert info.atomic is False
    assert info.as_of_from_ms is not None


def test_what_is_not_on_the_list_never_leaves(module: ModuleType, tmp_path: Path) -> None:
    """Each other command, in any spelling and hidden among allowed ones, is refused before a byte of it is sent."""
    with server(tmp_path / "server") as (redis_server, port):
        line = module.Server("127.0.0.1", port, 0, module.Login())
        assert line.one("INFO").startswith(b"# Server")
        with watched(redis_server.client()) as seen:
            for words in ("GET a", "set a 1", "FLUSHALL", "AUTH x", "SELECT 1", "READONLY"):
                with pytest.raises(module.NotAllowed):
                    line.ask(("TIME",), words.split())
            with pytest.raises(module.NotAllowed):
                line._line.send_packed_command(b"*1\r\n$4\r\nTIME\r\nFLUSHALL\r\n")
            with pytest.raises(module.NotAllowed):
                line._line.send_packed_command(["FLUSHALL\r\n"])
        assert seen == []
        line.close()


def test_login_of_a_user_who_may_do_nothing_else(tmp_path: Path) -> None:
    """The rights that the tool's help names are enough; keys that the user may not read are counted."""
    with server(tmp_path / "server") as (redis_server, port):
        client = redis_server.client()
        client.mset({"mine:1": "a", "mine:2": "b", "other": "c"})
        rights = ["+scan", "+type", "+pttl", "+dump", "+time", "+info"]
        client.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "resetkeys", "%R~mine:*", "-@all", *rights)
        export = tmp_path / "e.ndjson"
        done = tool("--user", "reader", "-o", export, f"127.0.0.1:{port}", REDISCLI_AUTH="secret")
        assert b"1 keys were refused" in done.stderr
        lines = lines_of(export)
        assert set(keys_of(lines)) == {(0, "mine:1"), (0, "mine:2")}
        assert lines[-1]["refused"] == 1
        failed = tool("--user", "reader", f"127.0.0.1:{port}", check=False, REDISCLI_AUTH="wrong")
        assert failed.returncode == 2
        assert b"invalid username-password pair" in failed.stderr


def test_databases_patterns_and_standard_output(tmp_path: Path) -> None:
    """Every database that has keys, or those named; keys like a pattern; binary names and values come out exact."""
    with server(tmp_path / "server") as (redis_server, port):
        for db in (0, 3):
            redis_server.client(db).set(f"k{db}", b"\xff\x00")
        redis_server.client(3).set(b"\xfe", "x", px=100_000)
        out = tool(f"127.0.0.1:{port}").stdout
        lines = [json.loads(line) for line in out.splitlines()]
        assert [(line["db"], line["key"]) for line in lines[1:-1] if isinstance(line["key"], str)] == [
            (0, "k0"),
            (3, "k3"),
        ]
        (binary,) = (line for line in lines[1:-1] if not isinstance(line["key"], str))
        assert binary["key"] == {"b64": "/g=="}
        assert 0 < binary["expire_at_ms"] - binary["seen_at_ms"] <= 100_000
        told = redis_server.client(3).execute_command("PEXPIRETIME", b"\xfe")
        assert abs(binary["expire_at_ms"] - told) < 1000
        one = tool("--db", 3, "--match", "k*", f"127.0.0.1:{port}").stdout
        assert set(keys_of([json.loads(line) for line in one.splitlines()])) == {(3, "k3")}
        export = tmp_path / "e.ndjson"
        export.write_bytes(out)
        case = analyze([export], tmp_path / "case", AnalyzeOptions())
        assert case.manifest.evidence[0].counts["keys"] == 3


def test_broken_off_and_gone_on_with(tmp_path: Path) -> None:
    """Ended by a signal, the file can be read; `--resume` goes on, and in the end no key is missing."""
    with server(tmp_path / "server") as (redis_server, port):
        names = {f"key:{n}" for n in range(6000)}
        redis_server.client().mset(dict.fromkeys(names, "value"))
        for export in (tmp_path / "e.ndjson", tmp_path / "e.ndjson.gz"):
            command = [sys.executable, str(TOOL), "--rate", "500", "--batch", "50", "-o", str(export)]
            process = subprocess.Popen([*command, f"127.0.0.1:{port}"], stderr=subprocess.DEVNULL)
            kept = Path(f"{export}.resume")
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and not (kept.exists() and json.loads(kept.read_text())["size"]):
                time.sleep(0.1)
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 2
            assert export.stat().st_size > 0
            assert 0 < json.loads(kept.read_text())["keys"] < 6000
            done = tool("-o", export, f"127.0.0.1:{port}", check=False)
            assert b"exists already" in done.stderr
            tool("--resume", "-o", export, f"127.0.0.1:{port}")
            lines = lines_of(export)
            assert {name for _, name in keys_of(lines)} == names
            assert lines[-1]["keys"] == sum(keys_of(lines).values())
            assert not kept.exists()
            assert export.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("option", ["--batch", "--rate"])
@pytest.mark.parametrize("number", ["0", "-5", "x", "1e3"])
def test_numbers_that_mean_nothing_are_refused(option: str, number: str, tmp_path: Path) -> None:
    """Before anything is asked or written: no half export is left for a batch of nothing."""
    done = tool(f"{option}={number}", "-o", tmp_path / "e.ndjson", "127.0.0.1:1", check=False)
    assert (done.returncode, b"is not a whole number from 1 on" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_another_process_is_not_gone_on_with(tmp_path: Path) -> None:
    """A cursor means nothing to a server that was started anew."""
    with server(tmp_path / "server") as (redis_server, port):
        redis_server.client().set("a", "1")
        export = tmp_path / "e.ndjson"
        export.touch()
        state = {"match": None, "sources": [], "size": 0}
        source = {"host": "127.0.0.1", "port": port, "db": 0, "readonly": False, "run_id": "another", "keys": 1}
        Path(f"{export}.resume").write_text(json.dumps({**state, "sources": [source]}))
        done = tool("--resume", "-o", export, f"127.0.0.1:{port}", check=False)
        assert (done.returncode, b"not the process" in done.stderr) == (2, True)


def test_the_replica_is_asked(tmp_path: Path) -> None:
    """A primary that has a replica is asked who that is, and nothing more; `--primary` stays with it."""
    with server(tmp_path / "one") as (primary, port):
        primary.client().mset({"a": "1", "b": "2"})
        with server(tmp_path / "two", "--replicaof", f"127.0.0.1 {port}") as (replica, _):
            for _ in range(200):
                info = primary.client().info("replication")
                if info.get("slave0", {}).get("state") == "online" and replica.client().dbsize() == 2:
                    break
                time.sleep(0.1)
            with watched(primary.client()) as at_primary, watched(replica.client()) as at_replica:
                tool("-o", tmp_path / "e.ndjson", f"127.0.0.1:{port}")
            assert [word for word in at_primary if word not in ("REPLCONF", "PING")] == ["INFO"]
            assert {word for word in at_replica if word not in ("REPLCONF", "PING")} <= SIX | {"ECHO"}
            assert set(keys_of(lines_of(tmp_path / "e.ndjson"))) == {(0, "a"), (0, "b")}
            with watched(replica.client()) as at_replica:
                tool("--primary", "-o", tmp_path / "p.ndjson", f"127.0.0.1:{port}")
            assert "SCAN" not in at_replica


def test_nodes_of_a_cluster(tmp_path: Path) -> None:
    """Each node is walked, and a replica in a cluster lets itself be read: all keys are there once, however often a
    node is given, and it is told that nodes may be missing."""
    buses = [free_port() for _ in range(3)]
    options = [["--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-port", str(p)] for p in buses]
    with (
        server(tmp_path / "a", *options[0]) as (a, port_a),
        server(tmp_path / "b", *options[1]) as (b, port_b),
        server(tmp_path / "c", *options[2]) as (c, port_c),
    ):
        a.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8191)
        b.client().execute_command("CLUSTER", "ADDSLOTSRANGE", 8192, 16383)
        for number, (node, port) in enumerate(((b, port_b), (c, port_c))):
            node.client().execute_command("CLUSTER", "SET-CONFIG-EPOCH", number + 2)
            a.client().execute_command("CLUSTER", "MEET", "127.0.0.1", port, buses[number + 1])
        nodes = [f"127.0.0.1:{port}" for port in (port_a, port_b, port_c)]
        for node in (a, b):
            wait_for(lambda node=node: b"cluster_state:ok" in node.client().execute_command("CLUSTER", "INFO"))
        a_id = a.client().execute_command("CLUSTER", "MYID").decode()
        wait_for(lambda: a_id in str(c.client().execute_command("CLUSTER", "NODES")))
        c.client().execute_command("CLUSTER", "REPLICATE", a_id)
        names = {f"key:{n}" for n in range(200)}
        for name in names:
            for node in (a, b):
                try:
                    node.client().set(name, "v")
                    break
                except redis.exceptions.MovedError:
                    continue
        wait_for(lambda: c.client().info("replication").get("master_link_status") == "up")
        wait_for(lambda: a.client().info("replication").get("slave0", {}).get("state") == "online")
        wait_for(lambda: c.client().dbsize() == a.client().dbsize())
        with watched(c.client()) as at_replica:
            told = tool("-o", tmp_path / "e.ndjson", *nodes, nodes[0])
        assert b"only the nodes that are given" in told.stderr
        refused = tool("-o", tmp_path / "no.ndjson", "--db", "1", nodes[0], check=False)
        assert (refused.returncode, refused.stderr.count(b"\n")) == (2, 1)
        assert b"no database but 0" in refused.stderr
        assert sorted(p.name for p in tmp_path.glob("*ndjson*")) == ["e.ndjson"]
        assert {word for word in at_replica if word not in ("REPLCONF", "PING")} <= SIX | {"READONLY"}
        assert "SCAN" in at_replica
        lines = lines_of(tmp_path / "e.ndjson")
        assert keys_of(lines) == Counter((0, name) for name in names)
        assert len(lines[0]["nodes"]) == 2
    with snapshot(tmp_path / "e.ndjson") as source, open_keyspace(source) as keyspace:
        assert [remark.kind for remark in keyspace.facts.remarks] == ["cluster_nodes"]


def wait_for(done: Any) -> None:
    for _ in range(200):
        try:
            if done():
                return
        except redis.RedisError:
            pass
        time.sleep(0.1)
    raise AssertionError("the servers did not come together")


def test_over_tls(tmp_path: Path) -> None:
    """With the server's authority the export is made; without it nothing is sent."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed: NO connection over TLS was made")
    names = ["-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            key,
            "-out",
            cert,
            "-days",
            "2",
            *names,
        ],
        check=True,
        capture_output=True,
    )
    secure = free_port()
    options = ["--tls-port", secure, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"]
    with server(tmp_path / "server", *map(str, options)) as (redis_server, _):
        redis_server.client().set("a", "1")
        tool("--tls", "--cacert", cert, "-o", tmp_path / "e.ndjson", f"127.0.0.1:{secure}")
        assert set(keys_of(lines_of(tmp_path / "e.ndjson"))) == {(0, "a")}
        refused = tool("--tls", f"127.0.0.1:{secure}", check=False)
        assert (refused.returncode, b"CERTIFICATE_VERIFY_FAILED" in refused.stderr) == (2, True)
        tool("--tls", "--insecure", "-o", tmp_path / "i.ndjson", f"127.0.0.1:{secure}")


def test_the_package_never_imports_it() -> None:
    """The tool is a file of its own: nothing in the package names it, and it names nothing of the package."""
    assert "scan_export" not in "".join(p.read_text() for p in (ROOT / "src").rglob("*.py"))
    assert "import jobsleuth" not in TOOL.read_text()
    assert TOOL.read_text().splitlines()[1] == "# /// script"
