"""Which key is what: Asynq's key grammar, settled where all keys are visible.

Queue names, group names, task types and task ids are free text and may hold colons and braces, so no key alone says
where the name ends. The registry `asynq:queues` decides first (longest name wins), then what the keys themselves show.
Key names and types: NOTES.md.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jobsleuth.dialects.asynq.fields import GROUP_ONLY
from jobsleuth.dialects.asynq.keytable import KeyTable
from jobsleuth.dialects.asynq.wholemessages import NoMessage, WholeMessage, queue_of, read
from jobsleuth.dialects.base import Options
from jobsleuth.keyspace import Claims, Keyspace, QueueRef, Rows

NAMESPACE = b"asynq"
_SLICE = 1 << 20
"""Keys looked at in one go: bounds the memory that copies of key names take."""

_GLOBAL = {
    b"asynq:queues": "queues",
    b"asynq:servers": "servers",
    b"asynq:workers": "workers",
    b"asynq:schedulers": "schedulers",
    # before 0.12
    b"asynq:ps": "servers",
    b"asynq:paused": "paused_queues",
    b"asynq:in_progress": "messages_active",
    b"asynq:scheduled": "messages_scheduled",
    b"asynq:retry": "messages_retry",
    b"asynq:dead": "messages_dead",
    b"asynq:deadlines": "messages_deadlines",
    # left by `migrate` of 0.10 to 0.17
    b"asynq:in_progress:backup": "backup",
    b"asynq:scheduled:backup": "backup",
    b"asynq:retry:backup": "backup",
    b"asynq:dead:backup": "backup",
}
_GLOBAL_PREFIX = {
    b"asynq:servers:": "server",
    b"asynq:workers:": "worker",
    b"asynq:schedulers:": "scheduler",
    b"asynq:scheduler_history:": "scheduler_history",
    b"asynq:sema:": "sema",
    # before 0.12
    b"asynq:ps:": "server",
    b"asynq:queues:": "messages_pending",
    b"asynq:processed:": "processed_day",
    b"asynq:failure:": "failed_day",
}
_WORDS = {
    b"pending": "pending",
    b"active": "active",
    b"lease": "lease",
    b"deadlines": "deadlines",
    b"scheduled": "scheduled",
    b"retry": "retry",
    b"archived": "archived",
    b"completed": "completed",
    b"paused": "paused",
    b"processed": "processed",
    b"failed": "failed",
    b"groups": "groups",
    b"aggregation_sets": "aggregation_sets",
    b"dead": "messages_dead",  # 0.12 and 0.13
}
_QUEUE_PREFIX = {
    b"t:": "job",
    b"unique:": "unique",
    b"g:": "group",
    b"processed:": "processed_day",
    b"failed:": "failed_day",
}
_MESSAGE_ROLES = {"active", "scheduled", "retry", "archived", "deadlines"}
"""Structures that held whole messages before 0.18, under the names they still have."""

_WHOLE = ("messages_pending", "messages_dead", *(f"messages_{role}" for role in sorted(_MESSAGE_ROLES)), "backup")
_BACKUP = b":backup"
"""What the library's `migrate` command adds to the name of a key that it replaces. At its end it deletes the key."""

_DAY = r"\d{4}-\d\d-\d\d"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
# The shortest name after which the rest of the key is a role; a key that is but a name is a list of 0.12 to 0.17.
_SPLIT = (
    r"^(?s)asynq:\{(?P<queue>.*?)\}(?P<rest>|:(?:"
    + "|".join(w.decode() for w in _WORDS)
    + rf")(?::backup)?|:(?:t|g|unique):.*|:(?:processed|failed):{_DAY})$"
)


def claim(keyspace: Keyspace, free: npt.NDArray[np.bool_], options: Options) -> Claims:
    """Names queue and role of every key that begins with `asynq:`."""
    return _Claimer(keyspace, free).run()


class _Claimer:
    def __init__(self, keyspace: Keyspace, free: npt.NDArray[np.bool_]) -> None:
        self.keyspace = keyspace
        self.keys = KeyTable(keyspace)
        self.claims = Claims.empty("asynq", len(self.keys.db))
        self._free = free
        head = keyspace.find_prefix(self.keys.name, [b"asynq:", b"asynq:{"])
        self.ours = (head >= 0) & free
        self.in_queue = (head == 1) & free

    def run(self) -> Claims:
        claims = self.claims
        claims.role[self.ours] = claims.role_code("unplaced")
        self._globals()
        numbers: dict[tuple[int, bytes], int] = {}
        for db in np.unique(self.keys.db[self.ours]).tolist():
            self._queues_of(int(db), numbers)
        self._roles()
        self._aggregation_sets()
        self._whole_messages()
        self._named_in_messages(numbers)
        return claims

    # -- keys that belong to no queue ---------------------------------------------------------------------------------

    def _globals(self) -> None:
        rows = np.flatnonzero(self.ours & ~self.in_queue)
        keys = self.keys.names(rows)
        self._by_word(rows, keys, _GLOBAL)
        found = self.keyspace.find_prefix(keys, list(_GLOBAL_PREFIX))
        for index, role in enumerate(_GLOBAL_PREFIX.values()):
            self.claims.role[rows[found == index]] = self.claims.role_code(role)

    def _by_word(self, rows: Rows, names: pa.ChunkedArray, words: dict[bytes, str]) -> None:
        found = pc.fill_null(pc.index_in(names, value_set=pa.array(list(words), pa.binary())), -1).to_numpy()
        for index, role in enumerate(words.values()):
            self.claims.role[rows[found == index]] = self.claims.role_code(role)

    # -- which queue --------------------------------------------------------------------------------------------------

    def _queues_of(self, db: int, numbers: dict[tuple[int, bytes], int]) -> None:
        here = self.keys.db == db
        registered, global_lists = self._registered(here)
        for name in registered:
            self._add(db, name, numbers)
        self._global_lists(db, here, global_lists, numbers)
        rows = np.flatnonzero(here & self.in_queue)
        left = [self._match(part, db, registered, numbers) for part in _parts(rows)]
        unmatched = np.concatenate(left) if left else rows
        shown: list[bytes] = []
        for part in _parts(unmatched):
            shown.extend(n for n in self._shown_names(part) if (db, n) not in numbers)
        shown = sorted(set(shown))
        for name in shown:
            self._add(db, name, numbers)
        for part in _parts(unmatched):
            self._match(part, db, shown, numbers)
            self._bare_lists(part, db, numbers)

    def _add(self, db: int, name: bytes, numbers: dict[tuple[int, bytes], int], base: bytes | None = None) -> int:
        number = numbers.setdefault((db, name), len(numbers))
        if number == len(self.claims.queues):
            self.claims.queues.append(QueueRef(db, NAMESPACE, name, base or b"asynq:{" + name + b"}"))
        return number

    def _registered(self, here: npt.NDArray[np.bool_]) -> tuple[list[bytes], list[bytes]]:
        """Names in `asynq:queues`: those of queues with keys of their own, those of global lists (before 0.12)."""
        rows = self.claims.rows_of("queues")
        rows = self.keys.present(rows[here[rows]], "set")
        names = sorted(m for batch in self.keyspace.elements(rows) for m in batch.column("member").to_pylist())
        lists = [n[len(b"asynq:queues:") :] for n in names if n.startswith(b"asynq:queues:")]
        return [n for n in names if not n.startswith(b"asynq:queues:")], lists

    def _global_lists(
        self, db: int, here: npt.NDArray[np.bool_], registered: list[bytes], numbers: dict[tuple[int, bytes], int]
    ) -> None:
        rows = self.claims.rows_of("messages_pending")
        rows = rows[here[rows]]
        for name in registered:
            self._add(db, name, numbers, b"asynq:queues:" + name)
        names = [key[len(b"asynq:queues:") :] for key in self.keys.names(rows).to_pylist()]
        queues = {*registered, *names}
        for row, name in zip(rows.tolist(), names, strict=True):
            if name not in registered and name.endswith(_BACKUP) and name.removesuffix(_BACKUP) in queues:
                self.claims.role[row] = self.claims.role_code("backup")
                name = name.removesuffix(_BACKUP)
            elif name == b"backup" and self.keys.type_of(row) == "set":  # of the registry
                self.claims.role[row] = self.claims.role_code("backup")
                continue
            if self.keys.live[row] or (db, name) in numbers:
                self.claims.queue[row] = self._add(db, name, numbers, b"asynq:queues:" + name)

    def _match(self, rows: Rows, db: int, names: list[bytes], numbers: dict[tuple[int, bytes], int]) -> Rows:
        """Gives the rows to the queues of the names, longest name first; returns the rows of none."""
        if not names or not len(rows):
            return rows
        found = self.keyspace.find_prefix(self.keys.names(rows), [b"asynq:{" + n + b"}:" for n in names])
        of_name = np.array([numbers[db, n] for n in names], np.int32)
        hit = found >= 0
        self.claims.queue[rows[hit]] = of_name[found[hit]]
        return rows[~hit]

    def _shown_names(self, rows: Rows) -> list[bytes]:
        """Queue names that unregistered keys show by themselves."""
        rows = rows[self.keys.live[rows]]
        split = pc.extract_regex(self.keys.names(rows), _SPLIT)
        names = pc.struct_field(split, "queue")
        bare = pc.equal(pc.binary_length(pc.struct_field(split, "rest")), 0)
        believable = pc.or_(pc.invert(bare), pa.array(self.keys.has_type(rows, "list")))
        return [n for n in pc.unique(pc.filter(names, believable)).to_pylist() if n is not None]

    def _bare_lists(self, rows: Rows, db: int, numbers: dict[tuple[int, bytes], int]) -> None:
        """`asynq:{queue}` itself, the list of 0.12 to 0.17."""
        rows = rows[(self.claims.queue[rows] < 0) & self.keys.has_type(rows, "list")]
        for row, key in zip(rows.tolist(), self.keys.names(rows).to_pylist(), strict=True):
            number = numbers.get((db, key[len(b"asynq:{") : -1])) if key.endswith(b"}") else None
            if number is not None:
                self.claims.queue[row] = number
                self.claims.role[row] = self.claims.role_code("messages_pending")

    # -- which role in the queue --------------------------------------------------------------------------------------

    def _roles(self) -> None:
        claims = self.claims
        length = np.array([len(q.base) + 1 for q in claims.queues], np.int64)
        unplaced = claims.role_code("unplaced")
        placed = self.in_queue & (claims.queue >= 0) & (claims.role == unplaced)
        for rows in _parts(np.flatnonzero(placed)):
            keys = self.keys.names(rows)
            rest = self.keyspace.cut(keys, length[claims.queue[rows]], np.zeros(len(rows), np.int64))
            self._by_word(rows, rest, _WORDS)
            self._by_word(rows, rest, {word + _BACKUP: "backup" for word in _WORDS})
            found = self.keyspace.find_prefix(rest, list(_QUEUE_PREFIX))
            days = pc.match_substring_regex(rest, rf"^(?:processed|failed):{_DAY}$").to_numpy()
            for index, role in enumerate(_QUEUE_PREFIX.values()):
                hit = found == index
                if role.endswith("_day"):
                    hit &= days
                claims.role[rows[hit]] = claims.role_code(role)

    def _aggregation_sets(self) -> None:
        """Tells groups from aggregation sets: a group may be called `x:<uuid>`, which reads like a set of group `x`."""
        claims = self.claims
        group, aggregation_set = claims.role_code("group"), claims.role_code("aggregation_set")
        rows = claims.rows_of("group")
        if not len(rows):
            return
        names = self.keyspace.cut(
            self.keys.names(rows),
            np.array([len(q.base) + 3 for q in claims.queues], np.int64)[claims.queue[rows]],
            np.zeros(len(rows), np.int64),
        )
        shaped = rows[pc.match_substring_regex(names, rf"(?s):{_UUID}$").to_numpy()]
        if not len(shaped):
            return
        listed = self._registry_rows("aggregation_sets", "zset", b"")
        claims.role[np.intersect1d(shaped, listed)] = aggregation_set
        doubtful = np.setdiff1d(shaped, np.concatenate([listed, self._registry_rows("groups", "set", b":g:")]))
        claims.role[doubtful] = aggregation_set
        for row, own_group, full_name in self._own_groups(doubtful):
            if own_group == full_name:
                claims.role[row] = group

    def _registry_rows(self, role: str, kind: str, infix: bytes) -> Rows:
        """Rows of the keys that a queue's registry names: whole keys, or names that follow base and infix."""
        claims = self.claims
        rows = claims.rows_of(role)
        rows = self.keys.present(rows, kind)
        prefixes = [(q.db, q.base + infix if infix else b"") for q in claims.queues]
        out = [np.empty(0, np.int64)]
        for batch in self.keyspace.elements(rows):
            code = claims.queue[batch.column("row").to_numpy()]
            found = self.keys.find(prefixes, code, batch.column("member"))
            out.append(found[found >= 0])
        return np.unique(np.concatenate(out))

    def _own_groups(self, rows: Rows) -> Iterator[tuple[int, bytes, bytes]]:
        """Per zset (row, the group its first task's record names, the zset's whole name after `g:`)."""
        claims = self.claims
        rows = self.keys.present(rows, "zset")
        prefixes = [(q.db, q.base + b":t:") for q in claims.queues]
        zset_of: dict[int, int] = {}
        for batch in self.keyspace.elements(rows):
            first = batch.filter(pc.equal(batch.column("position"), 0))
            row = first.column("row").to_numpy()
            task = self.keys.find(prefixes, claims.queue[row], first.column("member"))
            zset_of.update((int(t), int(z)) for t, z in zip(task, row, strict=True) if t >= 0)
        tasks = np.array(sorted(zset_of), np.int64)
        for batch in self.keyspace.records(tasks, GROUP_ONLY, rest=False):
            for task, own in zip(batch.column("row").to_pylist(), batch.column("group").to_pylist(), strict=True):
                zset = zset_of[task]
                if own is not None:
                    base = claims.queues[int(claims.queue[zset])].base
                    yield zset, own, self.keys.name[zset].as_py()[len(base) + 3 :]

    def _whole_messages(self) -> None:
        """Marks the structures of queues that hold whole messages (before 0.18), so that none passes for an id."""
        claims = self.claims
        codes = [claims.role_code(name) for name in sorted(_MESSAGE_ROLES)]
        rows = np.flatnonzero(np.isin(claims.role, codes) & (claims.queue >= 0))
        has_tasks = np.zeros(len(claims.queues), bool)
        has_tasks[claims.queue[claims.rows_of("job", "pending", "completed")]] = True
        old = np.zeros(len(claims.queues), bool)
        listed = claims.rows_of("messages_pending", "messages_dead")
        old[claims.queue[listed[claims.queue[listed] >= 0]]] = True
        unsure = rows[~has_tasks[claims.queue[rows]] & ~old[claims.queue[rows]] & self.keys.live[rows]]
        # The smallest structure of a queue shows its encoding as well as the largest.
        order = unsure[np.lexsort((unsure, self.keys.elements(unsure), claims.queue[unsure]))]
        smallest = np.sort(order[np.unique(claims.queue[order], return_index=True)[1]])
        for batch in self.keyspace.elements(smallest[self.keys.has_type(smallest, "list", "zset")]):
            json = pc.starts_with(batch.column("member"), b'{"').to_numpy(zero_copy_only=False)
            old[claims.queue[batch.column("row").to_numpy()[json]]] = True
        for code in codes:
            marked = rows[(claims.role[rows] == code) & (old & ~has_tasks)[claims.queue[rows]]]
            claims.role[marked] = claims.role_code("messages_" + claims.roles[code])

    def _named_in_messages(self, numbers: dict[tuple[int, bytes], int]) -> None:
        """What only the messages of global structures name (before 0.12): their queues, and their locks' keys, which
        then had no prefix. These messages are read once more for their rows."""
        claims = self.claims
        rows = claims.rows_of(*_WHOLE)
        shared = np.array([q.base.startswith(b"asynq:queues:") for q in claims.queues] + [True])  # [-1]: of no queue
        rows = rows[self.keys.live[rows] & shared[claims.queue[rows]]]
        for batch in self.keyspace.elements(rows[self.keys.has_type(rows, "list", "zset")]):
            locks: list[tuple[int, bytes]] = []
            for row, data in zip(batch.column("row").to_pylist(), batch.column("member").to_pylist(), strict=True):
                db, number = int(self.keys.db[row]), int(claims.queue[row])
                try:
                    message = read(data)
                except NoMessage:
                    message = WholeMessage()  # of the queue without a name, unless the structure is a queue's own
                if number < 0:
                    name = queue_of(message)
                    number = self._add(db, name, numbers, b"asynq:queues:" + name)
                if message.unique_key:
                    locks.append((number, message.unique_key.encode()))
            self._claim_locks(locks)

    def _claim_locks(self, locks: list[tuple[int, bytes]]) -> None:
        """Claims the keys that nobody else has."""
        claims = self.claims
        if not locks:
            return
        number = np.array([number for number, _ in locks], np.int32)
        found = self.keys.find([(q.db, b"") for q in claims.queues], number, pa.array([key for _, key in locks]))
        known = found >= 0
        known[known] = self._free[found[known]] & (claims.role[found[known]] < 0)
        claims.role[found[known]] = claims.role_code("unique")
        claims.queue[found[known]] = number[known]


def _parts(rows: Rows) -> Iterator[Rows]:
    for start in range(0, len(rows), _SLICE):
        yield rows[start : start + _SLICE]
