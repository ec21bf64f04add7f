"""EV010."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class UndecodedValues(Check):
    """Values of types that are not decoded.

    What it finds
    Keys that a queue owns whose value is a module's: its content is not read. One finding for each queue and type. Keys
    of no queue do not matter here.

    Why it matters
    If jobs are in them, they are missing from this case.

    How it comes about
    Other software under the queue's names; a queue library on a module.

    What to do next
    Look at the key with the server that has the module.

    False alarms
    None; it is information.

    References
    The table `keys` of the case: `type`.
    """

    id = "EV010"
    name = "undecoded-values"
    title = "Values of types that are not decoded"
    severity = "info"
    since = "0.1.0"
    versions = "all formats"
    impact = "were passed over: what is in them is not judged"
    heals = "no"
    moving = False
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "expired"),
    }
    sql = """
        SELECT dialect, namespace, queue, min(key) AS key, evidence, db, type, count(*) AS keys, type AS _same,
            count_text(count(*), 'key') AS _keys
        FROM keys
        WHERE dialect IS NOT NULL AND type = 'module' AND expired IS NOT TRUE
        GROUP BY dialect, namespace, queue, evidence, db, type
    """
    message = "Queue {queue} has {_keys} of type {type}, whose content is not read, for example {key}"
