"""MB006."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, QUEUE_PLACE, Check


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
    versions = "Bull, BullMQ 1.0 to 5.81; the first state also 6.x"
    impact = "wait where no worker looks, or will be lost at the next pause or resume"
    heals = "no: only a resume moves the list"
    dialects = ("bullmq",)
    needs = {
        "membership": (*JOB_PLACE, "structure", "key"),
        "queues": (*QUEUE_PLACE, "layout", "paused"),
    }
    sql = """
        WITH held AS MATERIALIZED (
            SELECT dialect, namespace, queue, m.job_id, m.key, evidence, db, q.paused,
                coalesce(try_cast(regexp_extract(q.layout, '^bullmq (\\d+)', 1) AS INTEGER), 0) AS major
            FROM (
                SELECT dialect, namespace, queue, job_id, key, evidence, db
                FROM membership
                WHERE structure = 'paused' AND dialect = 'bullmq'
            ) AS m
            JOIN queues AS q USING (dialect, namespace, queue, evidence, db)
        ),
        waiting AS (
            SELECT m.dialect, m.namespace, m.queue, m.evidence, m.db, count(*) AS in_wait
            FROM membership AS m
            SEMI JOIN held AS h USING (dialect, namespace, queue, evidence, db)
            WHERE m.structure = 'wait'
            GROUP BY ALL
        ),
        divided AS (
            SELECT dialect, namespace, queue, min(h.key) AS key, evidence, db, w.in_wait, count(*) AS in_paused
            FROM held AS h
            JOIN waiting AS w USING (dialect, namespace, queue, evidence, db)
            WHERE h.paused AND h.major < 6
            GROUP BY dialect, namespace, queue, evidence, db, w.in_wait
        )
        SELECT dialect, namespace, queue, job_id, min(key) AS key, evidence, db,
            NULL::BIGINT AS in_wait, NULL::BIGINT AS in_paused,
            'Job ' || job_id || ' of queue ' || queue AS _whose,
            'is in the paused list, but the queue is not paused: no worker looks there' AS _what
        FROM held
        WHERE paused = FALSE
        GROUP BY ALL
        UNION ALL
        SELECT dialect, namespace, queue, NULL, key, evidence, db, in_wait, in_paused,
            'Paused queue ' || queue,
            'has ' || count_text(in_wait, 'id') || ' in wait beside ' || in_paused
                || ' in paused: the next pause or resume loses some'
        FROM divided
    """
    message = "{_whose} {_what}"
