"""EV002."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class EvidenceCutShort(Check):
    """The evidence could not be read to its end.

    What it finds
    An evidence file of which only a part was read, because it ends too early or is damaged; `details` says where and
    why. Such a file is read with `--salvage` only.

    Why it matters
    What stands behind the fault is missing from the case. A record or an entry that seems lost may just be there:
    findings about structures are only possible, and what is not found proves nothing.

    How it comes about
    A copy made while the server was still writing, a full disk, an interrupted transfer, damage.

    What to do next
    Get a whole copy. If there is none, treat every "missing" in this case as "not seen".

    False alarms
    None known.

    References
    The manifest of the case: `evidence[].fault`.
    """

    id = "EV002"
    name = "evidence-cut-short"
    title = "The evidence could not be read to its end"
    severity = "error"
    since = "0.1.0"
    versions = "all formats"
    impact = "were not read to the end: what is missing here may be there"
    heals = "no"
    moving = False
    needs = {"evidence": ("evidence", "path", "bytes", "fault", "fault_offset")}
    sql = """
        SELECT e.evidence, e.path, e.bytes, e.fault, e.fault_offset,
            concat_ws(' of ', e.fault_offset, e.bytes) AS _same
        FROM evidence AS e
        WHERE e.fault IS NOT NULL
    """
    message = "The evidence {path} was read only up to byte {fault_offset} of {bytes}: {fault}"
