"""The order in which a queue's tables are made."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from jobsleuth.dialects.base import Options
from jobsleuth.dialects.bullmq.events import events
from jobsleuth.dialects.bullmq.jobs import Jobs
from jobsleuth.dialects.bullmq.locks import locks, relay_nodes
from jobsleuth.dialects.bullmq.logs import logs
from jobsleuth.dialects.bullmq.queues import Settings
from jobsleuth.dialects.bullmq.reading import Reading
from jobsleuth.dialects.bullmq.relations import children, deduplications, parked
from jobsleuth.dialects.bullmq.schedules import schedules
from jobsleuth.dialects.bullmq.structures import Memberships
from jobsleuth.dialects.bullmq.tally import Tally
from jobsleuth.keyspace import Claims, Keyspace


def tables(keyspace: Keyspace, claims: Claims, options: Options) -> Iterator[tuple[str, pa.Table | pa.RecordBatch]]:
    """All rows, piece by piece.

    Children come first, for they settle which hashes may be jobs; then structures, which settle states; then the job
    hashes, one by one; what adds up over all of them (queues) last.
    """
    reading = Reading(keyspace, claims, options)
    tally = Tally(len(claims.queues))
    yield from children(reading, tally)
    yield from deduplications(reading, tally)
    settings = Settings(reading, tally)
    memberships = Memberships(reading, tally)
    yield from memberships.tables()
    jobs = Jobs(reading, memberships, tally, settings.bull)
    yield from jobs.tables()
    yield from parked(reading)
    yield from schedules(reading, jobs.schedulers, settings.bull)
    yield from locks(reading, tally)
    yield from relay_nodes(reading)
    yield from events(reading, tally)
    yield from logs(reading)
    yield from settings.tables()
