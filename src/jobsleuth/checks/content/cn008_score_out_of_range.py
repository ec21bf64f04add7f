"""CN008."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class ScoreOutOfRange(Check):
    """A score is no time that the library writes.

    What it finds
    BullMQ and Bull: a score in `delayed` that is too small to be a time packed with its tie-breaker (plain
    milliseconds, say), or negative. Asynq: a score or a `pending_since` in another unit than the library's, or with a
    fraction.

    Why it matters
    BullMQ takes plain milliseconds for 1970 and runs the job at once; a negative score makes Bull try the job without
    end: an error. Asynq takes milliseconds for a time far in the future: the task never runs; a fraction breaks the
    whole listing up to 0.24.

    How it comes about
    A client in another language, a score written by hand, a delay with an absurd value.

    What to do next
    Write the score anew: BullMQ milliseconds times 4096, Asynq seconds. Find the writer.

    False alarms
    None known.

    References
    OptimalBits/bull#1705.
    """

    id = "CN008"
    name = "score-out-of-range"
    title = "A score is no time that the library writes"
    severity = "warning"
    since = "0.1.0"
    versions = "all releases of Bull, BullMQ, Asynq"
    impact = "run at once, never, or break listings: their score is no time of the library"
    heals = "no"
    basis = "derived"
    absence = False
    needs = {
        "jobs": (*JOB_PLACE, "has_record", "pending_since", "key", "rest"),
        "membership": (*JOB_PLACE, "structure", "kind", "score", "key"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, structure, score,
            CASE WHEN score < 0 THEN 'error' ELSE 'warning' END AS severity,
            CASE
                WHEN score < 0 THEN 'is negative'
                WHEN dialect = 'bullmq' THEN 'is no packed time: the library takes it for 1970'
                WHEN score > 100_000_000_000 THEN 'is in another unit than seconds: its time never comes'
                ELSE 'has a fraction, which breaks listings up to 0.24'
            END AS _what
        FROM membership
        WHERE CASE WHEN dialect = 'bullmq' THEN structure = 'delayed' AND score < 100_000_000_000_000
            ELSE dialect = 'asynq' AND kind = 'zset'
                AND (score > 100_000_000_000 OR score < 0 OR score <> floor(score)) END
        UNION ALL
        SELECT dialect, namespace, queue, job_id, key, evidence, db, 'pending', NULL, 'warning',
            'is in another unit than nanoseconds'
        FROM jobs
        WHERE dialect = 'asynq' AND has_record AND pending_since IS NULL
            AND map_extract(rest, 'pending_since')[1] IS NOT NULL
    """
    message = "The score {score} of job {job_id} in {structure} of queue {queue} {_what}"
