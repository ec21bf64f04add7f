"""`jobsleuth.toml` and files for `--layout`: descriptions of layouts, each fault named with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from jobsleuth import safetext
from jobsleuth.dialects.described.plain import KINDS, plain
from jobsleuth.dialects.description import (
    COLUMNS,
    HASH,
    INSIDE,
    ISO,
    JSON,
    STATES,
    TIMES,
    UNITS,
    Described,
    Layout,
    Pattern,
    Source,
    Structure,
)
from jobsleuth.errors import DialectError, UsageError

SECTIONS = ("layout", "lists")
"""Members of the file that are read here."""
POLICY_SECTIONS = ("checks", "severity", "parameters", "queue", "suppress")
"""Members that may stand beside them: the file may be the policy's as well."""
_KEYS = {
    "layout": ("name", "namespace", "queue", "structure", "record", "fields", "ids", "lock"),
    "structure": ("key", "type", "state", "name", "score"),
    "record": ("key", "type"),
    "field": ("field", "unit"),
    "lists": tuple(KINDS),
}
_TYPES = ("list", "zset", "set")


def load_layouts(path: Path) -> Described:
    """Reads the descriptions in a file.

    Raises:
        UsageError: it cannot be read, or a description is not whole or holds what is not known.
    """
    try:
        text = path.read_text(encoding="utf-8")
        stored = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"the layouts cannot be read: {error.strerror}", file=str(path)) from error
    except ValueError as error:
        raise UsageError(f"the file is no TOML: {safetext.terminal(str(error), 200)}", file=str(path)) from error
    reader = _Reader(str(path), _Lines(text))
    reader.require_sections(stored)
    lists = stored.get("lists")
    return Described(
        tuple(reader.layout(nth, entry) for nth, entry in enumerate(reader.tables(stored, "layout", ("layout",)))),
        None if lists is None else (reader.lists(lists),),
    )


class _Lines:
    """Where things stand: the parser of TOML does not tell."""

    def __init__(self, text: str) -> None:
        self._at: dict[tuple[str | int, ...], int] = {}
        counts: dict[tuple[str | int, ...], int] = {}
        here: tuple[str | int, ...] = ()
        for number, line in enumerate(text.splitlines(), 1):
            if found := re.match(r"\s*\[(\[?)\s*([\w.\- \"']+?)\s*\]", line):
                here = ()
                names = [name.strip(" \"'") for name in found[2].split(".")]
                for depth, name in enumerate(names):
                    here = (*here, name)
                    self._at.setdefault(here, number)
                    if found[1] and depth == len(names) - 1:
                        counts[here] = counts.get(here, -1) + 1
                    if here in counts:
                        here = (*here, counts[here])
                    self._at.setdefault(here, number)
            elif found := re.match(r"\s*([\w.\-\"']+)\s*=", line):
                names = [name.strip("\"'") for name in found[1].split(".")]
                for depth in range(1, len(names) + 1):
                    self._at.setdefault((*here, *names[:depth]), number)

    def of(self, place: tuple[str | int, ...]) -> int:
        """The line of a place, else of the nearest around it."""
        while place and place not in self._at:
            place = place[:-1]
        return self._at.get(place, 1)


@dataclass
class _Reader:
    file: str
    lines: _Lines
    names: set[str] = field(default_factory=set)

    def require_sections(self, stored: Mapping[str, Any]) -> None:
        """Makes sure that no description hides under a name that nobody reads."""
        for name in stored:
            if name not in (*SECTIONS, *POLICY_SECTIONS):
                raise self._unknown("there is no section", name, SECTIONS, (name,))

    def layout(self, nth: int, entry: Mapping[str, Any]) -> Layout:
        """One `[[layout]]`."""
        place: tuple[str | int, ...] = ("layout", nth)
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
        structures = tuple(
            self._structure(inner, (*place, "structure", number))
            for number, inner in enumerate(self.tables(entry, "structure", (*place, "structure")))
        )
        if not structures:
            raise self._wrong("the layout has no structure", place, "add [[layout.structure]] with key, type and state")
        record, record_key = self._record(entry.get("record", {}), (*place, "record"))
        queue = self._text(entry, "queue", place) if "queue" in entry else None
        ids = entry.get("ids", ["id", "jid", "uuid"])
        if not isinstance(ids, list) or not all(isinstance(i, str) and i for i in ids):
            raise self._wrong("ids is no list of names", (*place, "ids"), 'e.g. ["id"]')
        return Layout(
            name=name,
            namespace=self._text(entry, "namespace", place) if "namespace" in entry else name,
            structures=structures,
            record=record,
            record_key=record_key,
            fields=self._fields(entry.get("fields", {}), (*place, "fields")),
            ids=tuple(ids),
            lock=lock,
            queue=queue,
            file=self.file,
            line=self.lines.of(place),
            lock_line=self.lines.of((*place, "lock")),
            record_line=self.lines.of((*place, "record", "key")),
        )

    def lists(self, entry: Any) -> Layout:
        """The table `[lists]`."""
        if not isinstance(entry, dict):
            raise self._wrong("lists is no table", ("lists",), "write [lists]")
        self._require_keys("lists", entry, ("lists",))
        patterns: dict[str, list[Pattern]] = {}
        for kind, given in entry.items():
            if not isinstance(given, list):
                raise self._wrong(f"lists.{kind} is no list of keys", ("lists", kind), 'e.g. ["jobs:{queue}"]')
            patterns[kind] = [self._pattern({kind: text}, kind, ("lists",)) for text in given]
        return plain("plain list", patterns, "lists", self.file)

    def _structure(self, entry: Mapping[str, Any], place: tuple[str | int, ...]) -> Structure:
        self._require_keys("structure", entry, place)
        type_ = self._word(entry, "type", place, _TYPES)
        state = self._word(entry, "state", place, STATES) if "state" in entry else None
        unit = self._word(entry, "score", place, tuple(UNITS)) if "score" in entry else None
        if unit is not None and type_ != "zset":
            raise self._wrong(f"a {type_} has no scores", (*place, "score"), "only a zset has")
        # What checks know of a structure called `active` holds for libraries with stalled checks or leases.
        name = ("processing" if state == "active" else state) or "seen"
        if "name" in entry:
            name = self._text(entry, "name", place)
        line, unit_line = (self.lines.of((*place, member)) for member in ("key", "score"))
        return Structure(name, state, type_, self._pattern(entry, "key", place), unit, line, unit_line)

    def _record(self, entry: Any, place: tuple[str | int, ...]) -> tuple[str, Pattern | None]:
        if not isinstance(entry, dict):
            raise self._wrong("record is no table", place, "write [layout.record]")
        self._require_keys("record", entry, place)
        if not entry:
            return INSIDE, None
        kind = self._word(entry, "type", place, (HASH, JSON, INSIDE))
        if kind == INSIDE:
            return INSIDE, None
        key = self._pattern(entry, "key", place)
        if "id" not in key.parts:
            raise self._wrong("the record's key has no part {id}", (*place, "key"), "e.g. mail:job:{id}")
        return kind, key

    def _fields(self, entry: Any, place: tuple[str | int, ...]) -> dict[str, Source]:
        if not isinstance(entry, dict):
            raise self._wrong("fields is no table", place, "write [layout.fields]")
        found: dict[str, Source] = {}
        for column, given in entry.items():
            here = (*place, column)
            if column not in COLUMNS or column == "id":
                hint = "name the id of jobs inside structures with ids" if column == "id" else None
                raise self._unknown("there is no field", column, [c for c in COLUMNS if c != "id"], here, hint)
            unit = None
            if isinstance(given, dict):
                self._require_keys("field", given, here)
                unit = self._word(given, "unit", here, (*UNITS, ISO)) if "unit" in given else None
                given = given.get("field")
            if not isinstance(given, str) or not given:
                raise self._wrong(f"{column} names no field of the record", here, f'e.g. {column} = "created"')
            if column in TIMES and unit is None:
                raise self._wrong(
                    f"{column} has no unit", here, f'e.g. {column} = {{ field = "{given}", unit = "ms" }}'
                )
            if column not in TIMES and unit is not None:
                raise self._wrong(f"{column} is no time and has no unit", here, f'write {column} = "{given}"')
            found[column] = Source((given,), unit, self.lines.of(here))
        return found

    # -- the parts ----------------------------------------------------------------------------------------------------

    def tables(self, entry: Mapping[str, Any], name: str, place: tuple[str | int, ...]) -> list[Mapping[str, Any]]:
        """The tables of a list of tables; none where there is no such member."""
        found = entry.get(name, [])
        if not isinstance(found, list) or not all(isinstance(e, dict) for e in found):
            raise self._wrong(f"{name} is no list of tables", place, f"write [[{'layout.' * (len(place) > 1)}{name}]]")
        return found

    def _pattern(self, entry: Mapping[str, Any], name: str, place: tuple[str | int, ...]) -> Pattern:
        text = self._text(entry, name, place)
        try:
            return Pattern.parse(text)
        except DialectError as error:
            raise self._wrong(f"{_shown(text)}: {error.message}", (*place, name), error.hint or "") from None

    def _text(self, entry: Mapping[str, Any], name: str, place: tuple[str | int, ...]) -> str:
        found = entry.get(name)
        if not isinstance(found, str) or not found:
            raise self._wrong(f"{name} is missing or no text", (*place, name), f'e.g. {name} = "…"')
        return found

    def _word(self, entry: Mapping[str, Any], name: str, place: tuple[str | int, ...], known: Sequence[str]) -> str:
        found = entry.get(name)
        if not isinstance(found, str) or found not in known:
            raise self._unknown(f"{name} cannot be", found, known, (*place, name))
        return found

    def _require_keys(self, kind: str, entry: Mapping[str, Any], place: tuple[str | int, ...]) -> None:
        for key in entry:
            if key not in _KEYS[kind]:
                raise self._unknown(f"{kind}: there is no key", key, _KEYS[kind], (*place, key))

    def _unknown(
        self, lead: str, given: Any, known: Sequence[str], place: tuple[str | int, ...], hint: str | None = None
    ) -> UsageError:
        near = get_close_matches(str(given), list(known), 1)
        hint = hint or (f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}")
        return self._wrong(f"{lead} {_shown(given)}", place, hint)

    def _wrong(self, what: str, place: tuple[str | int, ...], hint: str) -> UsageError:
        return UsageError(f"line {self.lines.of(place)}: {what}", file=self.file, hint=hint)


def _shown(value: Any) -> str:
    return safetext.terminal(str(value), 60)
