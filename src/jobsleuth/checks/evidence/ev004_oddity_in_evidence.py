"""EV004."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class OddityInEvidence(Check):
    """The evidence was read, but something in it is odd.

    What it finds
    What the reader noted while it read the file: counts that differ from those the file announces, bytes after its
    end, and the like (a wrong checksum is EV001's). One finding for each kind; the manifest lists them all with byte
    offsets.

    Why it matters
    Mostly harmless, but it tells about the file's history: edited, written by other software, or read over something
    that jobsleuth does not know.

    How it comes about
    Tools that cut or join dumps, servers other than Redis and Valkey, padded or concatenated files.

    What to do next
    If the dump comes straight from a server, keep the file and report it; else ask who made it.

    False alarms
    Announced counts are hints: the server may have written keys that expired meanwhile. The mark of 40 digits that
    `redis-cli --rdb -` leaves behind a snapshot is known and no finding; the manifest has it.

    References
    The manifest of the case: `evidence[].warnings`.
    """

    id = "EV004"
    name = "oddity-in-evidence"
    title = "The evidence was read, but something in it is odd"
    severity = "info"
    since = "0.1.0"
    versions = "all formats"
    impact = "have a history that the reader could not explain"
    heals = "no"
    moving = False
    needs = {
        "warnings": ("evidence", "kind", "message", "offset", "count"),
        "evidence": ("evidence", "path"),
    }
    sql = """
        SELECT w.evidence, w.kind, w.kind AS _same, min(w.message) AS note, min(w."offset") AS first_offset,
            sum(w."count")::BIGINT AS times, min(e.path) AS path, count(*) AS remarks,
            CASE WHEN count(*) > 1 THEN '; ' || (count(*) - 1) || ' more of this kind' ELSE '' END AS _more
        FROM warnings AS w
        JOIN evidence AS e USING (evidence)
        WHERE w.kind NOT IN ('wrong_checksum', 'transfer_end_mark')
        GROUP BY w.evidence, w.kind
    """
    message = "The evidence {path}: {note}{_more}"
