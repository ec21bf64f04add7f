"""Libraries of functions in append-only files, held against what the server that wrote them lists."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from jobsleuth.sources import open_keyspace, snapshot
from tests.conftest import RedisServer
from tests.sources.commands import packed, text

FUNCTIONS = {
    "first": "#!lua name=first\nredis.register_function('one', function() return 1 end)",
    "second": "#!lua name=second\n"
    + "-- padding that compresses well\n" * 40
    + "redis.register_function('two', function() end)",
    "third": "#!lua name=third\nredis.register_function('three', function() return 3 end)",
}


def test_functions_are_those_that_the_server_lists(tmp_path: Path) -> None:
    """Libraries that were loaded, replaced, deleted, dumped and restored, from a base and from commands: in the end the
    manifest has those of FUNCTION LIST, with engine and size of their source."""
    folder = tmp_path / "server"
    folder.mkdir()
    server = RedisServer(folder, "--appendonly", "yes", "--appendfsync", "always")
    try:
        client = server.client()

        def function(*words: Any) -> Any:
            return client.execute_command("FUNCTION", *words)

        function("LOAD", FUNCTIONS["first"])
        client.execute_command("BGREWRITEAOF")
        while (
            client.info("persistence")["aof_rewrite_in_progress"] or client.info("persistence")["aof_rewrite_scheduled"]
        ):
            time.sleep(0.05)
        function("LOAD", FUNCTIONS["second"])
        payload = function("DUMP")
        function("LOAD", "REPLACE", FUNCTIONS["second"] + "\n-- changed")
        function("FLUSH")
        function("LOAD", FUNCTIONS["third"])
        for end in (["APPEND"], ["REPLACE"], ["FLUSH"]):
            function("RESTORE", payload, *end)
            if end != ["FLUSH"]:
                function("LOAD", "REPLACE", FUNCTIONS["second"] + "\n-- changed")
            listed = {
                row[b"library_name"].decode(): (row[b"engine"].decode().lower(), len(row[b"library_code"]))
                for row in (
                    dict(zip(r[::2], r[1::2], strict=True))
                    for r in client.execute_command("FUNCTION", "LIST", "WITHCODE")
                )
            }
            client.set("k", end[0])
            with snapshot(folder / "appendonlydir") as source, open_keyspace(source) as keyspace:
                told = {f["name"]: (f["engine"], f["size"]) for f in keyspace.facts.functions}
                assert (told, len(keyspace.facts.functions)) == (listed, len(listed))
        assert set(listed) == {"first", "second"}
        function("DELETE", "first")
        with snapshot(folder / "appendonlydir") as source, open_keyspace(source) as keyspace:
            assert [f["name"] for f in keyspace.facts.functions] == ["second"]
            assert not keyspace.facts.remarks
    finally:
        server.stop()


def test_a_payload_that_is_none_is_told(tmp_path: Path) -> None:
    """What no server would take is counted with its place, and the libraries before it stay."""
    commands = [text("FUNCTION", "LOAD", FUNCTIONS["first"]), text("FUNCTION", "RESTORE", "x"), text("FUNCTION", "NEW")]
    file = tmp_path / "appendonly.aof"
    file.write_bytes(packed(commands))
    with snapshot(file) as source, open_keyspace(source) as keyspace:
        facts = keyspace.facts
    assert facts.functions == [{"name": "first", "engine": "lua", "size": len(FUNCTIONS["first"])}]
    assert [(r.kind, r.count, r.offset) for r in facts.remarks] == [
        ("command_without_effect", 1, len(packed(commands[:2]))),
        ("command_without_effect", 1, len(packed(commands[:1]))),
    ]
    assert facts.counts["library_commands"] == 3
