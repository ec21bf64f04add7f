"""The case as an analyst has it on the desk: nothing large is read by accident, and a job is an object."""

from __future__ import annotations

from jobsleuth import safetext
from jobsleuth.api.job import Job
from jobsleuth.case import Case as _Case
from jobsleuth.errors import UsageError
from jobsleuth.reports import find_jobs, picture

MOST_BYTES = 1 << 30
"""What a case that Python opened may read into memory at once, unless `case.most_bytes` says otherwise."""


class Case(_Case):
    """A case folder, read-only. Use :func:`jobsleuth.open_case`.

    - `case.jobs`, `case.findings`, … : pandas, Arrow-backed, read on each access, without the big columns;
    - `case.pandas(table, columns)`, `case.arrow(…)`, `case.polars(…)`: any columns, and only those are read;
    - `case.sql(query)`: DuckDB over all tables and views, as pandas; `case.query(…)` as Arrow, `case.stream(…)` in
      pieces;
    - `case.job(id)`: all that is known of one job.

    What is read whole may take about `most_bytes` of memory (1 GiB); more is an error that says what to do instead.
    """

    @classmethod
    def of(cls, case: _Case) -> Case:
        """The same case, with the limit and with jobs."""
        return cls(case.path, case.manifest, most_bytes=MOST_BYTES)

    def job(
        self,
        job_id: str | int,
        queue: str | None = None,
        namespace: str | None = None,
        *,
        evidence: int | None = None,
        db: int | None = None,
    ) -> Job:
        """One job: its record, where its id is, who holds it, its kin, events, log and findings.

        Args:
            job_id: as in the tables; BullMQ's own ids are numbers, which may be given as such.
            queue: queue name, or `namespace/queue`; needed where several queues have a job of that id.
            namespace: BullMQ's prefix, or `asynq`.
            evidence: number of the evidence file, where several hold the job.
            db: number of the database, likewise.

        Raises:
            UsageError: there is no such job, or more than one; or the id is neither text nor a number.
        """
        if isinstance(job_id, int):
            job_id = str(job_id)
        if not isinstance(job_id, str):
            raise UsageError("a job's id is a string", file=str(self.path), hint="case.jobs has the ids, as text")
        found = [
            ref
            for ref in find_jobs(self, job_id, queue, namespace)
            if evidence in (None, ref.evidence) and db in (None, ref.db)
        ]
        shown = safetext.terminal(job_id, 80)
        if not found:
            where = f" in queue {safetext.terminal(queue, 80)}" if queue is not None else ""
            raise UsageError(f"no job {shown}{where}", file=str(self.path), hint="case.jobs has the ids")
        if len(found) > 1:
            places = [f"{safetext.terminal(ref.place, 60)} (evidence {ref.evidence}, db {ref.db})" for ref in found]
            more = f", and {len(places) - 5} more" if len(places) > 5 else ""
            raise UsageError(
                f"there are {len(found)} jobs {shown}: {', '.join(places[:5])}{more}",
                file=str(self.path),
                hint="say which: queue, namespace, evidence, db",
            )
        return Job(picture(self, found[0]))
