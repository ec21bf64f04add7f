#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["redis>=5.2"]
# ///
"""Export a live Redis or Valkey as keyspace NDJSON that `jobsleuth analyze` reads, when no snapshot can be had.

    uv run scan_export.py -o export.ndjson redis.example:6379
    REDISCLI_AUTH=secret python scan_export.py --user reader --tls -o export.ndjson.gz redis.example

It walks the keyspace with SCAN and asks for each key's TYPE, PTTL and DUMP, besides TIME and INFO. Nothing else can
leave: a guard at the connection refuses every other command before it is sent. To log in there are AUTH, for `--db`
SELECT, and to a replica in a cluster READONLY, each only as the first words of a connection.
ACL: +scan +type +pttl +dump +time +info, and %R~* for the keys.

The export is not one instant: a job may move while it is made, and be seen twice or not at all. Findings that such a
move could explain are marked `possible`. A snapshot (BGSAVE, or a replica's dump.rdb) is better evidence wherever it
can be had.

One file, not a part of the jobsleuth package, which never opens a connection.
"""

from __future__ import annotations

import argparse
import base64
import getpass
import gzip
import json
import os
import re
import signal
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, BinaryIO

import redis
from redis.connection import Connection, SSLConnection

ALLOWED = frozenset({b"SCAN", b"TYPE", b"PTTL", b"DUMP", b"TIME", b"INFO"})
"""All that may be asked."""
GREETING = frozenset({b"AUTH", b"SELECT", b"READONLY"})
"""What may come before that, while a connection is made."""
KINDS = frozenset({"string", "list", "set", "zset", "hash", "stream", "array", "vectorset"})
CHECKPOINT_S = 5.0
PROGRESS_S = 0.5
TIMEOUT_S = 30.0


class NotAllowed(Exception):
    """A command that must not leave was about to."""


class Failed(Exception):
    """The export cannot be made, or not further."""


def tell(text: str) -> None:
    sys.stderr.write(f"scan_export: {text}\n")


def command_names(packed: bytes) -> Iterator[bytes]:
    """Name of each command in bytes that are about to be sent.

    Raises:
        NotAllowed: the bytes are no whole commands.
    """
    at = 0
    while at < len(packed):
        head = re.compile(rb"\*([0-9]+)\r\n").match(packed, at)
        if head is None or int(head[1]) == 0:
            raise NotAllowed("bytes that are no command")
        at = head.end()
        for nth in range(int(head[1])):
            size = re.compile(rb"\$([0-9]+)\r\n").match(packed, at)
            if size is None:
                raise NotAllowed("bytes that are no command")
            end = size.end() + int(size[1])
            if packed[end : end + 2] != b"\r\n":
                raise NotAllowed("bytes that are no command")
            if nth == 0:
                yield packed[size.end() : end].upper()
            at = end + 2


class Guard:
    """Stands between a connection and its socket: what is not on the list never leaves."""

    greeting = False

    def send_packed_command(self, command: Any, check_health: bool = True) -> None:
        pieces = [command] if isinstance(command, bytes | str) else list(command)
        packed = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in pieces)
        for name in command_names(packed):
            if name not in ALLOWED and not (self.greeting and name in GREETING):
                raise NotAllowed(f"{name.decode('ascii', 'backslashreplace')} is not on the list")
        super().send_packed_command([packed], check_health=False)  # type: ignore[misc]


class PlainLine(Guard, Connection):
    """A connection to one database of one server."""


class SecureLine(Guard, SSLConnection):
    """The same over TLS."""


@dataclass(frozen=True)
class Login:
    """How to connect."""

    user: str | None = None
    password: str | None = None
    tls: dict[str, Any] | None = None


class Server:
    """One database of one server, asked in batches."""

    def __init__(self, host: str, port: int, db: int, login: Login, *, readonly: bool = False) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._login = login
        self._db = db
        self._readonly = readonly
        kind = PlainLine if login.tls is None else SecureLine
        self._line: Any = kind(
            host=host,
            port=port,
            protocol=2,
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
            health_check_interval=0,
            redis_connect_func=self._greet,
            **(login.tls or {}),
        )

    def _greet(self, line: Any) -> None:
        """In place of the library's own greeting, which says more than is wanted here."""
        line._parser.on_connect(line)
        line.greeting = True
        try:
            if self._login.password is not None:
                words = [self._login.user] if self._login.user else []
                self._word(line, "AUTH", *words, self._login.password)
            if self._db:
                self._word(line, "SELECT", str(self._db))
            if self._readonly:
                self._word(line, "READONLY")
        finally:
            line.greeting = False

    def _word(self, line: Any, *words: str) -> None:
        line.send_command(*words, check_health=False)
        line.read_response()

    def ask(self, *commands: Sequence[Any]) -> list[Any]:
        """Replies in order, in one trip; a refusal is a reply of type `ResponseError`.

        Raises:
            Failed: the connection or the server is gone, or not ready.
        """
        try:
            self._line.connect()
            self._line.send_packed_command(self._line.pack_commands(commands))
            return [self._reply() for _ in commands]
        except (redis.RedisError, OSError) as error:
            raise Failed(f"{self.address}: {error}") from error

    def _reply(self) -> Any:
        try:
            return self._line.read_response()
        except redis.exceptions.ResponseError as error:
            if isinstance(error, redis.exceptions.BusyLoadingError) or str(error).startswith(("MASTERDOWN", "NOAUTH")):
                raise
            return error

    def one(self, *words: Any) -> Any:
        """The reply to one command.

        Raises:
            Failed: it was refused.
        """
        (reply,) = self.ask(words)
        if isinstance(reply, redis.ResponseError):
            raise Failed(f"{self.address}: {words[0]}: {reply}")
        return reply

    def info(self) -> dict[str, str]:
        text = self.one("INFO").decode("utf-8", "replace")
        pairs = (line.partition(":") for line in text.splitlines() if ":" in line and not line.startswith("#"))
        return {name: value for name, _, value in pairs}

    def close(self) -> None:
        self._line.disconnect()


def moment(reply: Any) -> int:
    """TIME in ms."""
    seconds, micros = reply
    return int(seconds) * 1000 + int(micros) // 1000


@dataclass
class Source:
    """A database of a server that is to be walked."""

    host: str
    port: int
    db: int
    readonly: bool
    run_id: str
    keys: int


@dataclass
class State:
    """How far an export has come; kept beside the file, for `--resume`."""

    match: str | None
    sources: list[Source] = field(default_factory=list)
    at: int = 0
    cursor: int = 0
    size: int = 0
    keys: int = 0
    vanished: int = 0
    refused: int = 0
    started_at_ms: int = 0
    server_version: str | None = None
    cluster: bool = False


class Output:
    """The file being written: lines, plain or gzip, with places where it can be cut and gone on from."""

    def __init__(self, raw: BinaryIO, packed: bool) -> None:
        self._raw = raw
        self._packed = packed
        self._lines: list[bytes] = []

    def line(self, value: dict[str, Any]) -> None:
        self._lines.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")

    def settle(self) -> int:
        """Writes what has gathered (as a gzip member of its own); the size of the file, 0 if it is none."""
        text = b"".join(self._lines)
        self._lines.clear()
        if text:
            self._raw.write(gzip.compress(text, 6, mtime=0) if self._packed else text)
        self._raw.flush()
        return self._raw.tell() if self._raw.seekable() else 0


def byte_string(value: bytes) -> str | dict[str, str]:
    """A JSON string where the bytes are UTF-8, else base64 in an object."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode("ascii")}


class Pace:
    """Keeps to so many keys a second."""

    def __init__(self, rate: int | None) -> None:
        self._rate = rate
        self._due = time.monotonic()

    def take(self, keys: int) -> None:
        if self._rate:
            now = time.monotonic()
            self._due = max(self._due, now - 1.0) + keys / self._rate
            if self._due > now:
                time.sleep(self._due - now)


class Progress:
    """A line on standard error, where somebody watches."""

    def __init__(self, state: State, quiet: bool) -> None:
        self._state = state
        self._shown = not quiet and sys.stderr.isatty()
        self._next = 0.0

    def show(self, *, last: bool = False) -> None:
        now = time.monotonic()
        if not self._shown or (now < self._next and not last):
            return
        self._next = now + PROGRESS_S
        total = sum(source.keys for source in self._state.sources)
        sys.stderr.write(f"\r{self._state.keys:,} of about {total:,} keys" + ("\n" if last else ""))
        sys.stderr.flush()


def find_sources(nodes: Sequence[tuple[str, int]], dbs: Sequence[int], login: Login, primary: bool) -> State:
    """What to walk: for each node its replica where it has one, and the databases that have keys."""
    state = State(match=None)
    known: set[tuple[str | None, int]] = set()
    for host, port in nodes:
        server = Server(host, port, 0, login)
        info = server.info()
        server.close()
        if not primary and info.get("role") == "master":
            for replica in replicas_of(info):
                try:
                    server = Server(*replica, 0, login, readonly=info.get("cluster_enabled") == "1")
                    found = server.info()
                    server.close()
                except Failed:
                    continue
                if found.get("master_link_status") == "up":
                    (host, port), info = replica, found
                    break
        clustered = info.get("cluster_enabled") == "1"
        state.cluster = state.cluster or clustered
        readonly = clustered and info.get("role") == "slave"
        # A primary and its replicas have one id of their data; before Redis 4 a process has its own only.
        data = info.get("master_replid") or info.get("run_id")
        sizes = {
            int(name[2:]): int(re.match(r"keys=([0-9]+)", value)[1])  # type: ignore[index]
            for name, value in info.items()
            if re.fullmatch(r"db[0-9]+", name) and value.startswith("keys=")
        }
        if clustered and any(dbs):
            raise Failed(f"{host}:{port}: a node of a cluster has no database but 0")
        for db in dbs or sorted(sizes):
            if data is None or (data, db) not in known:
                state.sources.append(Source(host, port, db, readonly, info.get("run_id", ""), sizes.get(db, 0)))
            known.add((data, db))
        state.server_version = state.server_version or info.get("valkey_version") or info.get("redis_version")
    return state


def replicas_of(info: dict[str, str]) -> list[tuple[str, int]]:
    """Addresses of replicas that are in touch, the least behind first."""
    found = []
    for name, value in info.items():
        if re.fullmatch(r"slave[0-9]+", name):
            facts = dict(pair.partition("=")[::2] for pair in value.split(","))
            if facts.get("state") == "online":
                found.append((-int(facts.get("offset", 0)), facts["ip"], int(facts["port"])))
    return [(host, port) for _, host, port in sorted(found)]


def export(state: State, out: Output, login: Login, options: argparse.Namespace, keep: Any) -> None:
    """Walks all sources from where the state is; `keep` is called with the size of the file at each checkpoint."""
    pace, progress = Pace(options.rate), Progress(state, options.quiet)
    begun = False
    kept_at = time.monotonic()
    finished_at_ms = 0
    while state.at < len(state.sources):
        source = state.sources[state.at]
        server = Server(source.host, source.port, source.db, login, readonly=source.readonly)
        info = server.info()
        if source.run_id and info.get("run_id") != source.run_id:
            raise Failed(f"{server.address}: is not the process that the export began with; start it anew")
        if not state.started_at_ms:
            state.started_at_ms = moment(server.one("TIME"))
        if state.size == 0 and not begun:
            out.line(first_line(state))
        begun = True
        while True:
            keys, state.cursor = listed(server, state, options)
            batch_export(server, source.db, keys, state, out)
            pace.take(len(keys))
            progress.show()
            if state.cursor == 0:
                break
            if time.monotonic() - kept_at >= CHECKPOINT_S:
                kept_at = time.monotonic()
                keep(out.settle())
        finished_at_ms = max(finished_at_ms, moment(server.one("TIME")))
        server.close()
        state.at += 1
        keep(out.settle())
    if state.size == 0 and not begun:
        out.line(first_line(state))
    out.line(
        {
            "end": True,
            "keys": state.keys,
            "finished_at_ms": finished_at_ms or None,
            "vanished": state.vanished,
            "refused": state.refused,
        }
    )
    out.settle()
    progress.show(last=True)


def first_line(state: State) -> dict[str, Any]:
    nodes = sorted({f"{s.host}:{s.port}" for s in state.sources})
    return {
        "format": "jobsleuth-keyspace",
        "version": 1,
        "started_at_ms": state.started_at_ms or None,
        "finished_at_ms": None,
        "redis_version": state.server_version,
        "atomic": False,
        "as_of_ms": None,
        "nodes": nodes,
        "cluster": state.cluster,
        "match": state.match,
    }


def listed(server: Server, state: State, options: argparse.Namespace) -> tuple[list[bytes], int]:
    """The next keys, and the cursor behind them."""
    words: list[Any] = ["SCAN", state.cursor, "COUNT", options.batch]
    if state.match is not None:
        words += ["MATCH", state.match]
    cursor, keys = server.one(*words)
    return keys, int(cursor)


def batch_export(server: Server, db: int, keys: list[bytes], state: State, out: Output) -> None:
    """Writes one line for each of the keys that is still there."""
    if not keys:
        return
    commands = [(*words,) for key in keys for words in (("TYPE", key), ("PTTL", key), ("TIME",), ("DUMP", key))]
    replies = server.ask(*commands)
    for nth, key in enumerate(keys):
        kind, left, now, payload = replies[4 * nth : 4 * nth + 4]
        if isinstance(now, Exception):
            raise Failed(f"{server.address}: TIME: {now}")
        if any(isinstance(reply, Exception) for reply in (kind, left, payload)):
            state.refused += 1
            continue
        if payload is None or left == -2 or kind == b"none":
            state.vanished += 1
            continue
        seen_at_ms = moment(now)
        name = kind.decode("ascii", "replace")
        out.line(
            {
                "db": db,
                "key": byte_string(key),
                "type": name if name in KINDS else "module",
                "expire_at_ms": None if left < 0 else seen_at_ms + left,
                "seen_at_ms": seen_at_ms,
                "dump": base64.b64encode(payload).decode("ascii"),
            }
        )
        state.keys += 1


def node(text: str) -> tuple[str, int]:
    """HOST, HOST:PORT or [IPv6]:PORT."""
    found = re.fullmatch(r"(?:\[([^\]]+)\]|([^:]+))(?::([0-9]{1,5}))?", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST or HOST:PORT")
    return found[1] or found[2], int(found[3] or 6379)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    if not re.fullmatch(r"[1-9][0-9]{0,8}", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def arguments() -> argparse.ArgumentParser:
    about = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(
        description=about[0], epilog="\n\n".join(about[1:]), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "nodes", metavar="HOST[:PORT]", nargs="+", type=node, help="a server; of a cluster each primary"
    )
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, help="new file, gzip if it ends in .gz; else stdout")
    parser.add_argument("--db", type=int, action="append", default=[], help="only this database; may be repeated")
    parser.add_argument("--match", metavar="PATTERN", help="only keys like this, e.g. 'bull:*'")
    parser.add_argument(
        "--batch", metavar="N", type=positive, default=200, help="keys asked for at once (default: 200)"
    )
    parser.add_argument("--rate", metavar="N", type=positive, help="at most so many keys a second")
    parser.add_argument("--primary", action="store_true", help="stay with the server given, even if it has a replica")
    parser.add_argument("--resume", action="store_true", help="go on with an export that was broken off")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress")
    parser.add_argument("--user", help="ACL user; its password is in REDISCLI_AUTH, or asked for")
    parser.add_argument("--askpass", action="store_true", help="ask for the password")
    parser.add_argument("--tls", action="store_true", help="connect with TLS")
    parser.add_argument("--cacert", metavar="FILE", type=Path, help="authorities to trust, instead of the system's")
    parser.add_argument("--cert", metavar="FILE", type=Path, help="certificate of this client")
    parser.add_argument("--key", metavar="FILE", type=Path, help="its private key")
    parser.add_argument("--insecure", action="store_true", help="take any certificate of the server")
    return parser


def login_of(options: argparse.Namespace) -> Login:
    password = os.environ.get("REDISCLI_AUTH")
    if options.askpass or (options.user and password is None):
        password = getpass.getpass("Password: ")
    tls = None
    if options.tls:
        tls = {
            "ssl_ca_certs": None if options.cacert is None else str(options.cacert),
            "ssl_certfile": None if options.cert is None else str(options.cert),
            "ssl_keyfile": None if options.key is None else str(options.key),
            "ssl_cert_reqs": ssl.CERT_NONE if options.insecure else ssl.CERT_REQUIRED,
            "ssl_check_hostname": not options.insecure,
        }
    return Login(options.user, password, tls)


def restored(text: str) -> State:
    facts = json.loads(text)
    facts["sources"] = [Source(**source) for source in facts["sources"]]
    return State(**facts)


def run(options: argparse.Namespace) -> None:
    login = login_of(options)
    kept = None if options.out is None else options.out.with_name(options.out.name + ".resume")
    if options.resume:
        if kept is None or not kept.exists():
            raise Failed("there is nothing to go on with: give the --out FILE of an export that was broken off")
        state = restored(kept.read_text("utf-8"))
    else:
        if options.out is not None and options.out.exists():
            raise Failed(f"{options.out} exists already; choose another name, or --resume")
        state = find_sources(options.nodes, options.db, login, options.primary)
        state.match = options.match
        if state.cluster:
            tell("of a cluster only the nodes that are given are exported; the others' keys will be missing")
        if kept is not None:
            kept.write_text(json.dumps(asdict(state)), "utf-8")

    def keep(size: int) -> None:
        if kept is not None:
            state.size = size
            fresh = kept.with_name(kept.name + ".new")
            fresh.write_text(json.dumps(asdict(state)), "utf-8")
            fresh.replace(kept)

    if kept is None:
        export(state, Output(sys.stdout.buffer, False), login, options, keep)
        return
    # For its owner only: it holds everything that the keys hold.
    number = os.open(options.out, os.O_RDWR | os.O_CREAT, 0o600)
    with os.fdopen(number, "r+b") as raw:
        # What was written behind the last checkpoint comes again.
        raw.truncate(state.size)
        raw.seek(state.size)
        export(state, Output(raw, options.out.suffix == ".gz"), login, options, keep)
    kept.unlink(missing_ok=True)
    for what, count in (("gone before they could be read", state.vanished), ("refused by the server", state.refused)):
        if count:
            tell(f"{count:,} keys were {what}")


def main() -> int:
    options = arguments().parse_args()

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    try:
        run(options)
    except (Failed, NotAllowed, OSError) as error:
        tell(str(error))
    except KeyboardInterrupt:
        tell("broken off")
    else:
        return 0
    if options.out is not None and options.out.with_name(options.out.name + ".resume").exists():
        tell("what there is can be read; --resume goes on from the last checkpoint")
    return 2


if __name__ == "__main__":
    sys.exit(main())
