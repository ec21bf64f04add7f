"""EV003."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class UnplacedKeys(Check):
    """Keys look like a queue's, but fit no role in it.

    What it finds
    Keys named like those of a queue library which no release jobsleuth knows would write; one finding for each queue
    and Redis type, with the number of keys and one of them. They are listed in the table `keys` with role `unplaced`.

    Why it matters
    Something besides the library writes under its names, or a newer or commercial edition does. Tools that take every
    such key for a job miscount.

    How it comes about
    Application data stored under the queue's prefix, a structure overwritten by another type (a job called `wait`),
    a newer release.

    What to do next
    Look at the example. If it is application data, move it to names of its own. If it is a newer release's, look for a
    newer jobsleuth.

    False alarms
    None; it is information.

    References
    taskforcesh/bullmq#3370 and the key tables in the dialects' notes.
    """

    id = "EV003"
    name = "unplaced-keys"
    title = "Keys look like a queue's, but fit no role in it"
    severity = "info"
    since = "0.1.0"
    versions = "all releases"
    impact = "are named like a queue's and belong to none"
    heals = "no: it is no fault by itself"
    moving = False
    needs = {
        "keys": (*QUEUE_PLACE, "key", "type", "role"),
    }
    sql = """
        SELECT dialect, namespace, queue, min(key) AS key, evidence, db, type, type AS _same, count(*) AS keys,
            count_text(count(*), 'key') || ' of type ' || type AS _keys,
            CASE WHEN queue IS NULL THEN '' ELSE ' of queue ' || queue END AS _of
        FROM keys
        WHERE role = 'unplaced'
        GROUP BY dialect, namespace, queue, evidence, db, type
    """
    message = "{_keys}, named like {dialect} keys{_of}, without a role there: for example {key}"
