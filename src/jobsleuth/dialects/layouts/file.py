"""`jobsleuth.toml` and files for `--layout`: descriptions of layouts, each fault named with its line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jobsleuth import safetext
from jobsleuth.dialects.described.plain import KINDS, Named, given
from jobsleuth.dialects.description import (
    COLUMNS,
    FIELD,
    HASH,
    INSIDE,
    ISO,
    JSON,
    MEMBER_PARTS,
    PARTS,
    SINCE,
    STATES,
    TIMES,
    UNITS,
    Described,
    Layout,
    Pattern,
    Source,
    Structure,
)
from jobsleuth.dialects.layouts.lines import Lines, Place
from jobsleuth.errors import DialectError, UsageError

SECTIONS = ("layout", "lists")
"""Members of the file that are read here."""
POLICY_SECTIONS = ("checks", "severity", "parameters", "queue", "suppress")
"""Members that may stand beside them: the file may be the policy's as well."""
_KEYS = {
    "layout": ("name", "namespace", "queue", "structure", "record", "fields", "ids", "lock"),
    "structure": ("key", "type", "state", "name", "score", "since", "member"),
    "record": ("key", "type"),
    "field": ("field", "unit"),
    "lists": tuple(KINDS),
}
_TYPES = ("list", "zset", "set")
Keys = tuple[tuple[Pattern, ...], tuple[int, ...]]
"""Patterns, and the line of each."""
NO_KEYS: Keys = ((), ())


def load_layouts(path: Path) -> Described:
    """Reads the descriptions in a file.

    Raises:
        UsageError: it cannot be read, or a description is not whole or holds what is not known.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the layouts cannot be read: {error.strerror}", file=str(path)) from error
    except ValueError as error:
        raise UsageError(f"the file is no TOML: {safetext.terminal(str(error), 200)}", file=str(path)) from error
    return read_layouts(text, str(path))


def read_layouts(text: str, file: str) -> Described:
    """Reads the descriptions in a text; `file` is what errors call it.

    Raises:
        UsageError: a description is not whole or holds what is not known.
    """
    try:
        stored = tomllib.loads(text)
    except ValueError as error:
        raise UsageError(f"the file is no TOML: {safetext.terminal(str(error), 200)}", file=file) from error
    except RecursionError:
        raise UsageError("the file is no TOML that can be read: it is nested too deep", file=file) from None
    reader = _Reader(file, Lines(text))
    reader.require_sections(stored)
    lists = stored.get("lists")
    return Described(
        tuple(reader.layout(nth, entry) for nth, entry in enumerate(reader.tables(stored, "layout", ("layout",)))),
        None if lists is None else reader.lists(lists),
    )


@dataclass
class _Reader:
    file: str
    lines: Lines
    names: set[str] = field(default_factory=set)

    def require_sections(self, stored: Mapping[str, Any]) -> None:
        """Makes sure that no description hides under a name that nobody reads."""
        for name in stored:
            if name not in (*SECTIONS, *POLICY_SECTIONS):
                raise self._unknown("there is no section", name, SECTIONS, (name,))

    def layout(self, nth: int, entry: Mapping[str, Any]) -> Layout:
        """One `[[layout]]`."""
        place: Place = ("layout", nth)
        self._require_keys("layout", entry, place)
        name = self._text(entry, "name", place)
        if name in self.names:
            raise self._wrong(
                f"two layouts are called {_shown(name)}", (*place, "name"), "each needs a name of its own"
            )
        self.names.add(name)
        lock = self._pattern(entry, "lock", place) if "lock" in entry else None
        if lock is not None and "id" not in lock.parts:
            raise self._wrong("the lock's key has no part {id}", (*place, "lock"), "e.g. mail:lock:{id}")
        record, keys = self._record(entry["record"], (*place, "record")) if "record" in entry else (INSIDE, NO_KEYS)
        structures = tuple(
            self._structure(inner, (*place, "structure", number), record)
            for number, inner in enumerate(self.tables(entry, "structure", (*place, "structure")))
        )
        if not structures:
            raise self._wrong("the layout has no structure", place, "add [[layout.structure]] with key, type and state")
        queue = self._text(entry, "queue", place) if "queue" in entry else None
        ids = entry.get("ids", ["id", "jid", "uuid"])
        if not isinstance(ids, list) or not all(isinstance(i, str) and i for i in ids):
            raise self._wrong("ids is no list of names", (*place, "ids"), 'e.g. ["id"]')
        return Layout(
            name=name,
            namespace=self._text(entry, "namespace", place) if "namespace" in entry else name,
            structures=structures,
            record=record,
            record_keys=keys[0],
            fields=self._fields(entry.get("fields", {}), (*place, "fields")),
            ids=tuple(ids),
            lock=lock,
            queue=queue,
            file=self.file,
            line=self.lines.of(place),
            lock_line=self.lines.of((*place, "lock")),
            record_lines=keys[1],
            ids_line=self.lines.of((*place, "ids")) if "ids" in entry else 0,
        )

    def lists(self, entry: Any) -> tuple[Layout, ...]:
        """The table `[lists]`."""
        if not isinstance(entry, dict):
            raise self._wrong("lists is no table", ("lists",), "write [lists]")
        self._require_keys("lists", entry, ("lists",))
        patterns: list[Named] = []
        for kind, texts in entry.items():
            place = ("lists", kind)
            if not isinstance(texts, list):
                raise self._wrong(f"lists.{kind} is no list of keys", place, 'e.g. ["jobs:{queue}"]')
            patterns += [
                Named(kind, self._parsed(text, kind, (*place, nth)), self.lines.of((*place, nth)))
                for nth, text in enumerate(texts)
            ]
        return given(patterns, self.file)

    def _structure(self, entry: Mapping[str, Any], place: Place, record: str) -> Structure:
        self._require_keys("structure", entry, place)
        type_ = self._word(entry, "type", place, _TYPES)
        state = self._word(entry, "state", place, STATES) if "state" in entry else None
        unit = self._word(entry, "score", place, tuple(UNITS)) if "score" in entry else None
        if unit is not None and type_ != "zset":
            raise self._wrong(f"a {type_} has no scores", (*place, "score"), "only a zset has")
        time = "score"
        if "since" in entry:
            time, here = "since", (*place, "since")
            if unit is not None:
                raise self._wrong("scores are due times or since when, not both", here, "leave out score or since")
            if type_ != "zset":
                raise self._wrong(f"a {type_} has no scores", here, "only a zset has")
            if state not in SINCE:
                raise self._wrong("since needs a state that began", here, f"states are {', '.join(SINCE)}")
            unit = self._word(entry, "since", place, tuple(UNITS))
        name = ("processing" if state == "active" else state) or "seen"
        if "name" in entry:
            name = self._text(entry, "name", place)
        line, unit_line = (self.lines.of((*place, each)) for each in ("key", time))
        key = self._pattern(entry, "key", place)
        member = None
        if "member" in entry:
            here = (*place, "member")
            member = self._parsed(entry["member"], "member", here, MEMBER_PARTS)
            if "id" not in member.parts:
                raise self._wrong("the member has no part {id}", here, "e.g. {id}:{rest}")
            if record == INSIDE and state is not None:
                raise self._wrong("the members are the jobs themselves", here, "name their ids with ids")
        return Structure(name, state, type_, key, unit, line, unit_line, since=time == "since", member=member)

    def _record(self, entry: Any, place: Place) -> tuple[str, Keys]:
        """What holds the jobs, patterns of their keys and lines of these."""
        if not isinstance(entry, dict):
            raise self._wrong("record is no table", place, "write [layout.record]")
        self._require_keys("record", entry, place)
        kind = self._word(entry, "type", place, (HASH, JSON, FIELD, INSIDE))
        if kind == INSIDE:
            if "key" in entry:
                raise self._wrong(
                    "a record inside has no key", (*place, "key"), 'only with type = "hash", "json" or "field"'
                )
            return INSIDE, NO_KEYS
        stored = entry.get("key")
        texts, places = [stored], [(*place, "key")]
        if isinstance(stored, list) and stored:
            texts, places = stored, [(*place, "key", nth) for nth in range(len(stored))]
        keys = tuple(self._parsed(text, "key", here) for text, here in zip(texts, places, strict=True))
        for key, here in zip(keys, places, strict=True):
            if kind == FIELD and "id" in key.parts:
                raise self._wrong("the key of a hash of jobs has no part {id}", here, "its fields are the ids")
            if kind != FIELD and "id" not in key.parts:
                raise self._wrong("the record's key has no part {id}", here, "e.g. mail:job:{id}")
        return kind, (keys, tuple(map(self.lines.of, places)))

    def _fields(self, entry: Any, place: Place) -> dict[str, Source]:
        if not isinstance(entry, dict):
            raise self._wrong("fields is no table", place, "write [layout.fields]")
        found: dict[str, Source] = {}
        for column, source in entry.items():
            here = (*place, column)
            if column not in COLUMNS or column == "id":
                hint = "name the id of jobs inside structures with ids" if column == "id" else None
                raise self._unknown("there is no field", column, [c for c in COLUMNS if c != "id"], here, hint)
            unit, name = None, source
            if isinstance(source, dict):
                self._require_keys("field", source, here)
                unit = self._word(source, "unit", here, (*UNITS, ISO)) if "unit" in source else None
                name = source.get("field")
            if not isinstance(name, str) or not name:
                raise self._wrong(f"{column} names no field of the record", here, f'e.g. {column} = "created"')
            if column in TIMES and unit is None:
                raise self._wrong(
                    f"{column} has no unit", here, f'e.g. {column} = {{ field = "{_shown(name)}", unit = "ms" }}'
                )
            if column not in TIMES and unit is not None:
                raise self._wrong(f"{column} is no time and has no unit", here, f'write {column} = "{_shown(name)}"')
            found[column] = Source((name,), unit, self.lines.of(here))
        return found

    # -- the parts ----------------------------------------------------------------------------------------------------

    def tables(self, entry: Mapping[str, Any], name: str, place: Place) -> list[Mapping[str, Any]]:
        """The tables of a list of tables; none where there is no such member."""
        found = entry.get(name, [])
        if not isinstance(found, list) or not all(isinstance(e, dict) for e in found):
            raise self._wrong(f"{name} is no list of tables", place, f"write [[{'layout.' * (len(place) > 1)}{name}]]")
        return found

    def _pattern(self, entry: Mapping[str, Any], name: str, place: Place) -> Pattern:
        return self._parsed(entry.get(name), name, (*place, name))

    def _parsed(self, stored: Any, name: str, place: Place, known: tuple[str, ...] = PARTS) -> Pattern:
        text = self._worded(stored, name, place)
        try:
            return Pattern.parse(text, known)
        except DialectError as error:
            raise self._wrong(f"{_shown(text)}: {error.message}", place, error.hint or "") from None

    def _text(self, entry: Mapping[str, Any], name: str, place: Place) -> str:
        return self._worded(entry.get(name), name, (*place, name))

    def _worded(self, stored: Any, name: str, place: Place) -> str:
        if not isinstance(stored, str) or not stored:
            raise self._wrong(f"{name} is missing or no text", place, f'e.g. {name} = "…"')
        return stored

    def _word(self, entry: Mapping[str, Any], name: str, place: Place, known: Sequence[str]) -> str:
        found = entry.get(name)
        if not isinstance(found, str) or found not in known:
            raise self._unknown(f"{name} cannot be", found, known, (*place, name))
        return found

    def _require_keys(self, kind: str, entry: Mapping[str, Any], place: Place) -> None:
        for key in entry:
            if key not in _KEYS[kind]:
                raise self._unknown(f"{kind}: there is no key", key, _KEYS[kind], (*place, key))

    def _unknown(
        self, lead: str, given: Any, known: Sequence[str], place: Place, hint: str | None = None
    ) -> UsageError:
        near = get_close_matches(str(given), list(known), 1)
        hint = hint or (f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}")
        return self._wrong(f"{lead} {_shown(given)}", place, hint)

    def _wrong(self, what: str, place: Place, hint: str) -> UsageError:
        return UsageError(f"line {self.lines.of(place)}: {what}", file=self.file, hint=hint)


def _shown(value: Any) -> str:
    return safetext.terminal(str(value), 60)
