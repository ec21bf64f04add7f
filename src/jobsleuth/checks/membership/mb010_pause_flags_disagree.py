"""MB010."""

from __future__ import annotations

from jobsleuth.checks.base import QUEUE_PLACE, Check


class PauseFlagsDisagree(Check):
    """The two pause flags of a queue disagree.

    What it finds
    A queue of Bull 4 with only one of its two flags (the key `meta-paused` and the field `paused` of `meta`), or one of
    BullMQ with Bull's key and not its own field.

    Why it matters
    Some workers take jobs and others do not; a resume with one library leaves the queue paused for the other.

    How it comes about
    Two libraries on one queue, an upgrade from Bull to BullMQ while paused, a flag removed by hand.

    What to do next
    Pause and resume once with each library in use, or delete the flag that is left over.

    False alarms
    Bull before 3.18 writes the key alone: queues that do not show a later release are left alone.

    References
    Bull 3.18.0 changelog; BullMQ 6.7.0 `pause` script.
    """

    id = "MB010"
    name = "pause-flags-disagree"
    title = "The two pause flags of a queue disagree"
    severity = "warning"
    since = "0.1.0"
    versions = "Bull 3.18+, BullMQ"
    impact = "are paused for one library and not for the other"
    heals = "no: each library writes and reads its own flag"
    basis = "derived"
    moving = False
    dialects = ("bullmq",)
    absence = True
    needs = {
        "queues": (*QUEUE_PLACE, "layout", "pause_flags"),
    }
    sql = """
        SELECT dialect, namespace, queue, evidence, db, layout, pause_flags,
            CASE WHEN list_contains(pause_flags, 'meta-paused')
                THEN 'Bull, by its key meta-paused, and not for BullMQ'
                    ELSE 'BullMQ, by its settings, and not for Bull' END AS _what
        FROM queues
        WHERE dialect = 'bullmq' AND len(pause_flags) = 1
            AND CASE WHEN starts_with(layout, 'bullmq ') THEN pause_flags = ['meta-paused'] ELSE layout = 'bull 4.x' END
    """
    message = "Queue {queue} is paused for {_what}"
