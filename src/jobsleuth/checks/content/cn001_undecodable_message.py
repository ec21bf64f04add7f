"""CN001."""

from __future__ import annotations

from jobsleuth.checks.base import JOB_PLACE, Check


class UndecodableMessage(Check):
    """A record's message cannot be decoded.

    What it finds
    A task whose stored message is no valid message of the library: not protobuf, cut short, or the JSON that Asynq
    wrote before 0.18. `details` says why and at which byte of the message.

    Why it matters
    The task can neither run nor be shown: listings skip it but still count it. A leased task of this kind, once its
    lease has expired, stops the recovery of leases for every queue of the server that meets it; in an aggregation set
    it is tried again for ever.

    How it comes about
    A producer in another language or of another generation on the same queue, a value written by hand, corruption.

    What to do next
    `jobsleuth job CASE ID` shows the stored bytes. Move the id out of its structure so that it no longer blocks others,
    keep the bytes, and find the producer.

    False alarms
    None known.

    References
    hibiken/asynq#1140, hibiken/asynq#311, hibiken/asynqmon#127.
    """

    id = "CN001"
    name = "undecodable-message"
    title = "A record's message cannot be decoded"
    severity = "error"
    since = "0.1.0"
    versions = "Asynq 0.18+"
    impact = "cannot run nor be shown, and may stop the recovery of others"
    heals = "no"
    moving = False
    needs = {
        "jobs": (*JOB_PLACE, "key", "state", "decode_error"),
    }
    sql = """
        SELECT dialect, namespace, queue, job_id, key, evidence, db, state, decode_error
        FROM jobs
        WHERE decode_error IS NOT NULL
    """
    message = "The message of job {job_id} of queue {queue} ({state}) cannot be decoded: {decode_error}"
