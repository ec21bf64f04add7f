"""EV001."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class ChecksumNotOk(Check):
    """The evidence's checksum does not vouch for it.

    What it finds
    An evidence file whose stored checksum differs from its bytes (it is read with `--salvage` only), or that has none
    to compare: the server ran with `rdbchecksum no`, or the format has no checksum.

    Why it matters
    A wrong checksum means changed bytes: any finding may be an artefact, so findings about structures are only
    possible. Without a checksum nothing shows whether the copy is whole and unchanged.

    How it comes about
    A copy made while the file was written, a broken disk or transfer, an edited file; or the server's configuration.

    What to do next
    Copy the snapshot again from the server and compare the hash of both copies. `redis-check-rdb` gives a second
    opinion.

    False alarms
    An absent or disabled checksum is only information. Of a file that ends before its checksum EV002 speaks.

    References
    Redis 7.0 `src/rdb.c` (`rdbSaveRio`, `rdbLoadRioWithLoadingCtx`), `redis.conf` on `rdbchecksum`.
    """

    id = "EV001"
    name = "checksum-not-ok"
    title = "The evidence's checksum does not vouch for it"
    severity = "info"
    since = "0.1.0"
    versions = "RDB 5+"
    impact = "cannot vouch for what they hold"
    heals = "no"
    moving = False
    needs = {"evidence": ("evidence", "path", "checksum", "fault")}
    sql = """
        SELECT e.evidence, e.path, e.checksum, e.checksum AS _same,
            CASE WHEN e.checksum = 'mismatch' THEN 'error' ELSE 'info' END AS severity,
            CASE e.checksum
                WHEN 'mismatch' THEN 'has a checksum that does not match its bytes'
                WHEN 'absent' THEN 'has no checksum: its format version stores none'
                WHEN 'disabled' THEN 'has no checksum: the server wrote it with checksums off'
                ELSE 'has a checksum that was not verified'
            END AS _what
        FROM evidence AS e
        WHERE e.checksum <> 'ok' AND (e.fault IS NULL OR e.checksum = 'mismatch')
    """
    message = "The evidence {path} {_what}"
