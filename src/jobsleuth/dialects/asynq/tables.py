"""From claimed keys to rows of the case tables, in the order in which one pass needs another's findings."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from jobsleuth.dialects.asynq import servers
from jobsleuth.dialects.asynq.jobs import Jobs
from jobsleuth.dialects.asynq.membership import Places
from jobsleuth.dialects.asynq.queues import group_rows, lock_rows, queue_rows
from jobsleuth.dialects.asynq.schedules import Schedules
from jobsleuth.dialects.asynq.site import Site
from jobsleuth.dialects.asynq.whole import Whole
from jobsleuth.dialects.base import Options
from jobsleuth.keyspace import Claims, Keyspace


def tables(keyspace: Keyspace, claims: Claims, options: Options) -> Iterator[tuple[str, pa.Table]]:
    """All rows of the evidence, as (table, rows), in bounded pieces."""
    site = Site(keyspace, claims, options)
    consumers = servers.Consumers()
    yield from servers.tables_of(servers.server_rows(site, consumers))
    yield from servers.tables_of(servers.worker_rows(site, consumers))
    yield from servers.tables_of(servers.aggregation_rows(site))
    yield from servers.tables_of(servers.semaphore_rows(site))
    schedules = Schedules.read(site)
    yield from servers.tables_of(schedules.schedulers)
    yield from schedules.events(site)
    yield from schedules.tables()
    yield from lock_rows(site)
    yield from group_rows(site)
    places = Places(site)
    yield from places.rows()
    whole = Whole(site, places, consumers.started_otherwise)
    yield from whole.rows()
    yield from Jobs(site, places, consumers.started).rows()
    yield from queue_rows(site, consumers, whole.counts)
