"""What one cause can break at once: which findings show it, which others it explains, and how far it reaches.

A rule speaks only where the evidence holds its signs; what no rule explains stands alone, as findings of one check.
Kinds never change: they are what `findings.cause` begins with.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from jobsleuth.checks.base import Basis

Reach = Literal["evidence", "database", "queue", "process", "job", "id"]
"""How far a cause explains: `process` is one server by host and process id or one consumer of a stream, `job` one job
of one queue, `id` the jobs of that queue name and id under any prefix."""


@dataclass(frozen=True)
class CauseRule:
    """One kind of cause.

    Attributes:
        kind: permanent, kebab-case.
        title: what happened, one line.
        to_do: what to do about all of it.
        reach: what its findings have in common.
        signs: checks whose findings show it.
        explains: checks whose findings within its reach it explains.
        basis: what it rests on that they have one cause.
        explains_idle: checks whose findings it explains too where nothing shows that a worker of the queue lives.
        least: findings within one reach that make it a cause.
        alone: whether it says more than the check does where only findings of one check are left.
        condition: SQL on a sign, see :mod:`.grouping`.
        explained: SQL on what it may explain, of `suspects`.
    """

    kind: str
    title: str
    to_do: str
    reach: Reach
    signs: frozenset[str]
    explains: frozenset[str] = frozenset()
    basis: Basis = "derived"
    explains_idle: frozenset[str] = frozenset()
    least: int = 1
    alone: bool = False
    condition: str = "TRUE"
    explained: str = "TRUE"


def _ids(text: str) -> frozenset[str]:
    return frozenset(text.split())


EVIDENCE_CUT = CauseRule(
    kind="evidence-cut",
    title="The evidence is cut short: what seems to be missing may stand in the part that is not there",
    to_do='Get a whole copy of the snapshot and analyse that. Until then read every "missing" as "not seen".',
    reach="evidence",
    signs=_ids("EV002"),
    basis="inferred",
)
"""Explains all checks that rest on absence, see `Check.absence`."""

RULES: tuple[CauseRule, ...] = (
    EVIDENCE_CUT,
    CauseRule(
        kind="keys-evicted",
        title="Redis evicted keys that expire: locks went before their time",
        to_do="Set `maxmemory-policy noeviction`, give Redis more memory, and expect that jobs run twice.",
        reach="database",
        signs=_ids("EV006"),
        explains=_ids("LV002 UQ004"),
        explains_idle=_ids("LV015 LV017"),
        basis="inferred",
    ),
    CauseRule(
        kind="two-prefixes",
        title="One queue lives under two prefixes: ids stand under one, records under the other",
        to_do="Give producers and workers the same prefix; then move what lies under the wrong one.",
        reach="id",
        signs=_ids("MB013"),
        explains=_ids("MB002"),
        alone=True,
    ),
    CauseRule(
        kind="poison-message",
        title="Recovery stops at a message that cannot be decoded",
        to_do="Take the task with that message out of `active` and `lease` by hand; recovery then goes on by itself.",
        reach="database",
        signs=_ids("CN001"),
        explains=_ids("LV003"),
        basis="inferred",
        condition="EXISTS (SELECT 1 FROM suspects AS s WHERE s.check_id = 'LV003' AND s.evidence = a.evidence"
        " AND s.db = a.db AND s.namespace = a.namespace AND s.subject = a.subject)",
    ),
    CauseRule(
        kind="process-died",
        title="A server stopped without saying goodbye while it had work",
        to_do="Look for its end in the logs of its host. The tasks had started: find out what they did before they run "
        "again.",
        reach="process",
        signs=_ids("LV026 LV003 LV028 SC011"),
        explains=_ids("LV025 LV030 SC009 SC012 CT006 LV029"),
        explains_idle=_ids("LV004 LV008 LV020 LV022 LV023"),
        condition="a.dialect = 'asynq'",
    ),
    CauseRule(
        kind="workers-died",
        title="Workers died or were cut off while they held jobs",
        to_do="Look for the end of the workers in the logs of their hosts. The jobs had started: find out what they "
        "did before they run again. Then start a worker of the queue.",
        reach="queue",
        signs=_ids("LV002 LV003 LV026"),
        explains=_ids("LV011"),
        explains_idle=_ids("LV001 LV004 LV008 LV015 LV017 LV020 LV022 LV023"),
        alone=True,
    ),
    CauseRule(
        kind="consumer-silent",
        title="A consumer of a stream has gone silent with entries in its hands",
        to_do="Look for its end in its logs; claim its entries (`XAUTOCLAIM`) once you know what it did with them.",
        reach="process",
        signs=_ids("SM004"),
        explains=_ids("SM002 SM003"),
    ),
    CauseRule(
        kind="stream-trimmed",
        title="A stream was trimmed or emptied before its group was done with the entries",
        to_do="Find out what trims it (`MAXLEN`, `XTRIM`, `XDEL`); what was removed is gone: account for it elsewhere.",
        reach="queue",
        signs=_ids("SM006"),
        explains=_ids("SM001"),
        basis="inferred",
    ),
    CauseRule(
        kind="queue-paused",
        title="A queue is paused, and others wait for it",
        to_do="Resume the queue once you know why it was paused.",
        reach="queue",
        signs=_ids("LV021"),
        explains=_ids("RL009"),
    ),
    CauseRule(
        kind="rate-limited",
        title="A rate limit holds a queue, and others wait for it",
        to_do="A limit without an end has to be deleted by hand (`limiter`); any other ends by itself.",
        reach="queue",
        signs=_ids("LV013 LV014"),
        explains=_ids("RL009 LV017"),
    ),
    CauseRule(
        kind="slots-taken",
        title="All slots of a queue are taken by old work",
        to_do="Find out why the handlers do not return; other jobs wait behind them.",
        reach="queue",
        signs=_ids("LV015 LV017"),
        explains=_ids("LV016"),
    ),
    CauseRule(
        kind="schedules-lost",
        title="The delayed jobs of a queue were removed, and its schedules with them",
        to_do="Register the schedules again: nothing else revives them.",
        reach="queue",
        signs=_ids("SC001"),
        explains=_ids("MB002"),
        basis="inferred",
        least=2,
        alone=True,
        condition="NOT EXISTS (SELECT 1 FROM delayed AS d WHERE d.evidence = a.evidence AND d.db = a.db"
        " AND d.namespace = a.namespace AND d.queue = a.queue)",
    ),
    CauseRule(
        kind="queue-abandoned",
        title="A queue was left behind under an old prefix: no worker looks there any more",
        to_do="Move its unfinished jobs to the prefix in use, or start a worker with the old one until it is empty.",
        reach="queue",
        signs=_ids("LV018"),
        explains_idle=_ids("LV001 LV004 LV008"),
        basis="inferred",
    ),
    CauseRule(
        kind="no-worker",
        title="Nothing shows a worker: what is ready or due stays where it is",
        to_do="Start a worker of the queue.",
        reach="queue",
        signs=_ids("LV008"),
        explains_idle=_ids("LV001 LV004 LV020 LV022 LV023"),
        basis="inferred",
    ),
    CauseRule(
        kind="workers-asleep",
        title="Nothing wakes the workers: the wake-up marker is missing",
        to_do="Add any job to the queue: that sets the marker and wakes them.",
        reach="queue",
        signs=_ids("LV001"),
        explains_idle=_ids("LV004"),
        basis="inferred",
    ),
    CauseRule(
        kind="schedule-unlisted",
        title="Schedules lost their entry in the list: their definitions and jobs are left",
        to_do="Register them again, or remove what is left of them.",
        reach="queue",
        signs=_ids("SC004"),
        explains=_ids("SC006"),
    ),
    CauseRule(
        kind="no-aggregator",
        title="Nobody aggregates the groups of a queue",
        to_do="Start a server with a `GroupAggregator` for the queue.",
        reach="queue",
        signs=_ids("LV022 LV023"),
        explains=_ids("MB016 MB017 MB018"),
        basis="inferred",
    ),
    CauseRule(
        kind="counter-behind",
        title="The id counter fell back: new jobs overwrite old ones",
        to_do="Set the counter above the largest id before another job is added.",
        reach="queue",
        signs=_ids("CT001"),
        explains=_ids("MB003 MB004 CN005 CN009 ST002"),
        basis="inferred",
    ),
    CauseRule(
        kind="archive-full",
        title="A queue's archive took more failures than it holds: those pushed out are left where nothing shows them",
        to_do="Save what you need of them, then delete them; find out why so many tasks fail for good.",
        reach="queue",
        signs=_ids("CT004"),
        explains=_ids("MB002"),
        explained="claimed = 'archived'",
    ),
    CauseRule(
        kind="structure-replaced",
        title="A structure's key was overwritten with another type: what stood in it is lost",
        to_do="Save the key under another name and delete it; then put the jobs that lost their place back.",
        reach="queue",
        signs=_ids("MB007"),
        explains=_ids("MB002"),
        basis="inferred",
    ),
    CauseRule(
        kind="mixed-releases",
        title="Releases that do not understand each other's keys share a queue",
        to_do="Finish the upgrade; then remove what the older release left.",
        reach="queue",
        signs=_ids("EV005"),
        explains=_ids("MB005 MB008 MB010 SC003 SC008"),
    ),
    CauseRule(
        kind="newer-release",
        title="A release newer or older than those that jobsleuth knows wrote here",
        to_do="Look whether there is a newer jobsleuth; hold findings about an older release against its source.",
        reach="database",
        signs=_ids("EV009"),
        explains=_ids("CN002 EV003 EV010"),
        basis="inferred",
    ),
    CauseRule(
        kind="clocks-differ",
        title="The clocks of servers and of Redis differ",
        to_do="Check time synchronisation on the hosts.",
        reach="database",
        signs=_ids("LV019"),
        explains=_ids("CN006 CN007"),
        basis="inferred",
    ),
    CauseRule(
        kind="record-lost",
        title="Records of jobs are gone while other keys still name them",
        to_do="Find out what deleted them: an eviction policy other than `noeviction`, a clean-up by pattern, an "
        "expiry. What is left of each job can be removed once its work is accounted for.",
        reach="job",
        signs=_ids("MB001"),
        explains=_ids("LV006 LV007 MB009 RL002 RL007 SC001 UQ002 UQ007"),
    ),
    CauseRule(
        kind="job-stranded",
        title="Jobs fell out of every structure, and still hold keys that others need",
        to_do="See each job's story; put back what never started, and remove what is not to run.",
        reach="job",
        signs=_ids("MB002"),
        explains=_ids("LV006 LV010 LV011 MB008 MB009 RL001 SC001 ST001 UQ003 UQ005 UQ008"),
    ),
    CauseRule(
        kind="periodic-blocked",
        title="A periodic task is kept out by its own earlier run",
        to_do="Delete the earlier run once it is accounted for.",
        reach="job",
        signs=_ids("SC013"),
        explains=_ids("UQ003 UQ009"),
    ),
    CauseRule(
        kind="two-places",
        title="Jobs stand in two structures at once",
        to_do="Keep the place that fits the job's record, and remove the id from the other.",
        reach="job",
        signs=_ids("MB003"),
        explains=_ids("CN005 CN009 LV010 LV011 ST001 ST002 ST004 UQ003"),
    ),
)
"""The first that fits a finding has it."""

BY_KIND = {rule.kind: rule for rule in RULES}
