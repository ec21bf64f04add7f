"""MB006."""

from __future__ import annotations

from jobsleuth.checks.base import Check


class StrandedInPausedList(Check):
    """Jobs in a `paused` list that no worker looks at, or that the next pause or resume will lose.

    What it finds
    Two states of Bull and of BullMQ up to 5.x, where pausing renames the list `wait` to `paused` and resuming renames
    it back. First: ids in `paused` while the queue is not paused; one finding for each id. Second, not in 6.x: the
    queue is paused and both `wait` and `paused` hold ids; one finding for the queue.

    Why it matters
    Stranded ids are not run and, from BullMQ 6 on, are in no count until somebody resumes the queue. With both lists
    filled, one rename overwrites the other: the next pause loses the ids in `paused`, a resume those in `wait`. Their
    records stay, named by nothing.

    How it comes about
    The pause flag removed by hand or with the `meta` key; retries or adds that ignored the pause; a BullMQ 6 producer
    (which fills `wait` during a pause) beside a 5.x one.

    What to do next
    Stranded: resume the queue once if `wait` is empty; otherwise move the ids over one by one (`LMOVE` from `paused` to
    `wait`). Both filled: do not pause or resume with a release before 6; move the ids of one list into the other first.

    False alarms
    None known. In 6.x ids in `wait` of a paused queue are normal, and 6.x joins the lists on resume.

    References
    OptimalBits/bull#2540, OptimalBits/bull#1813, OptimalBits/bull#903.
    """

    id = "MB006"
    name = "stranded-in-paused-list"
    title = "Jobs in a paused list that nobody serves or that will be overwritten"
    severity = "error"
    since = "0.1.0"
    dialects = ("bullmq",)
    needs = {
        "membership": ("dialect", "namespace", "queue", "job_id", "structure", "key", "evidence", "db"),
        "queues": ("dialect", "namespace", "queue", "layout", "paused", "evidence", "db"),
    }
    sql = """
        WITH held AS (
            SELECT dialect, namespace, queue, m.job_id, m.structure, m.key, evidence, db, q.paused,
                coalesce(try_cast(regexp_extract(q.layout, '^bullmq (\\d+)', 1) AS INTEGER), 0) AS major
            FROM membership AS m
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
            WHERE m.dialect = 'bullmq' AND m.structure IN ('wait', 'paused')
        )
        SELECT dialect, namespace, queue, job_id, min(key) AS key, evidence, db,
            NULL::BIGINT AS in_wait, NULL::BIGINT AS in_paused,
            'Job ' || job_id || ' of queue ' || queue AS _whose,
            'is in the paused list, but the queue is not paused: no worker looks there' AS _what
        FROM held
        WHERE structure = 'paused' AND paused = FALSE
        GROUP BY ALL
        UNION ALL
        SELECT dialect, namespace, queue, NULL, min(key) FILTER (WHERE structure = 'paused'), evidence, db,
            count(*) FILTER (WHERE structure = 'wait'),
            count(*) FILTER (WHERE structure = 'paused'),
            'Paused queue ' || queue,
            'has ' || count_text(count(*) FILTER (WHERE structure = 'wait'), 'id') || ' in wait beside '
                || count(*) FILTER (WHERE structure = 'paused') || ' in paused: the next pause or resume loses some'
        FROM held
        WHERE paused AND major < 6
        GROUP BY dialect, namespace, queue, evidence, db
        HAVING count(*) FILTER (WHERE structure = 'wait') > 0 AND count(*) FILTER (WHERE structure = 'paused') > 0
    """
    message = "{_whose} {_what}"
