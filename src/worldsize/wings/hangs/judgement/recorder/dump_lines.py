"""A dump of the Flight Recorder as one short line, for nodes that share no file system. It contains, for each group,
the calls that have not ended, oldest first, and the newest calls, which a verdict needs.

A line is an object of JSON with "dump"; lines of stacks are lists. Its texts are in a table, and calls refer to them by
their index. Of a tensor's size only the number of its elements is kept, of a call's frames only the relevant one. Any
process may have written the line: sizes are limited, and nothing is raised for invalid data.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.json_values import PARSE_ERRORS
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import parse_digits, span_words
from worldsize.wings.hangs.judgement.recorder.flight_recorder import Dump, Entry, plain_number, plain_text
from worldsize.wings.hangs.judgement.recorder.recorded_groups import elements, own_frame

MOST_BYTES = 60_000
"""The maximum number of bytes of one line."""

_MOST_CALLS = 100
"""The maximum number of calls of one group in a line."""
_FEWER = (_MOST_CALLS, 40, 16, 6, 2)
_ENDED_BEFORE = 4
"""The number of calls kept before the oldest one that has not ended. They show how such records describe a call that
has ended."""

_MOST_TENSORS = 32
_MOST_READ = 1 << 20
_MOST_ENTRIES = 20_000
_MOST_MEMBERS = 100_000


def dump_line(dump: Dump, most: int = MOST_BYTES) -> str:
    """Return a Flight Recorder dump as one line of at most `most` characters, all ASCII, which `parse_dump_line` reads.
    If not even a few calls of each group fit, the dump has a fault instead."""
    for count in _FEWER:
        line = _line(dump._replace(entries=_newest(dump.entries, count)))
        if len(line) <= most:
            return line
    return _line(Dump(dump.rank, (), {}, False, dump.taken, dump.fault or "has too many groups to report"))


def parse_dump_line(line: str | bytes) -> Dump | None:
    """Return the Flight Recorder dump in a line that `dump_line` wrote. None for any other line."""
    if len(line) > _MOST_READ:
        return None
    try:
        return _read(json.loads(line))
    except PARSE_ERRORS:
        return None


def _newest(entries: Sequence[Entry], most: int) -> tuple[Entry, ...]:
    """Return at most `most` recorded calls of each process group and backend. Half of them are the oldest that have not
    ended, with a few before them; the others are the newest."""
    groups: dict[tuple[str, str, str, bool], list[int]] = {}
    for place, entry in enumerate(entries):
        groups.setdefault((entry.backend, entry.group, entry.group_name, entry.is_p2p), []).append(place)
    kept: set[int] = set()
    for places in groups.values():
        if len(places) > most:
            half = most // 2
            waiting = [index for index, place in enumerate(places) if not _has_ended(entries[place])]
            first = max(0, waiting[0] - min(_ENDED_BEFORE, half // 2)) if waiting else len(places)
            kept.update(places[first : first + half], places[half - most :])
        else:
            kept.update(places)
    return tuple(entries[place] for place in sorted(kept))


def _has_ended(entry: Entry) -> bool:
    return entry.state == "completed" or (entry.state != "started" and entry.retired)


class _Table:
    """A table that contains each text once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def place(self, text: str) -> int:
        return self._places.setdefault(text, len(self._places))

    def texts(self) -> list[str]:
        return list(self._places)


def _line(dump: Dump) -> str:
    table = _Table()
    calls = [_call(entry, table) for entry in dump.entries]
    members = {name: ",".join(span_words(ranks)) for name, ranks in dump.members.items()}
    head = [dump.rank, int(dump.whole), dump.taken, dump.fault]
    value = {"dump": head, "texts": table.texts(), "members": members, "calls": calls}
    return json.dumps(value, separators=(",", ":"))


def _call(entry: Entry, table: _Table) -> list[Any]:
    file, line, function = own_frame(entry) or ("", 0, "")
    counts, dtypes = _counts(entry.sizes), entry.dtypes
    if len(counts) > _MOST_TENSORS or len(dtypes) > _MOST_TENSORS:
        counts, dtypes = [sum(counts)], tuple(sorted(set(dtypes)))[:_MOST_TENSORS]
    return [
        *map(table.place, (entry.group, entry.group_name, entry.backend, entry.op, entry.state)),
        entry.seq,
        entry.p2p_seq,
        int(entry.is_p2p),
        int(entry.retired),
        entry.created,
        counts,
        [table.place(each) for each in dtypes],
        *((table.place(file), line, table.place(function)) if file else ()),
    ]


def _counts(sizes: Iterable[Iterable[int]]) -> list[int]:
    return [elements(size) for size in sizes]


def _read(value: Any) -> Dump | None:
    if not isinstance(value, dict) or "dump" not in value:
        return None
    rank, whole, taken, fault = value["dump"][:4]
    calls, texts = value["calls"], [plain_text(each) for each in value["texts"]]
    if plain_number(rank) < 0 or not isinstance(calls, list) or len(calls) > _MOST_ENTRIES:
        return None
    entries = tuple(_entry(call, texts) for call in calls)
    return Dump(rank, entries, _members(value["members"]), bool(whole), _time(taken), plain_text(fault))


def _entry(call: Any, texts: Sequence[str]) -> Entry:
    """Return the recorded call in a JSON value of a dump line, whose texts are in the table `texts`. Raise one of
    PARSE_ERRORS for an invalid value."""
    group, group_name, backend, op, state = (_of_table(texts, each) for each in call[:5])
    seq, p2p_seq, is_p2p, retired, created, counts, dtypes, *frame = call[5:]
    place = ((_of_table(texts, frame[0]), max(0, plain_number(frame[1])), _of_table(texts, frame[2])),) if frame else ()
    return Entry(
        group,
        group_name,
        backend,
        plain_number(seq),
        plain_number(p2p_seq),
        bool(is_p2p),
        op,
        tuple((_count(each),) for each in counts[:_MOST_TENSORS]),
        tuple(_of_table(texts, each) for each in dtypes[:_MOST_TENSORS]),
        state,
        bool(retired),
        _time(created) or 0.0,
        place,
    )


def _of_table(texts: Sequence[str], place: Any) -> str:
    number = plain_number(place)
    if number < 0:
        raise ValueError("not a place in the table of texts")
    return texts[number]


def _count(value: Any) -> int:
    """Return `value` if it is a whole number, a count of elements; -1 for any other value, and for a number that is too
    long to show, since Python's numbers are unbounded."""
    return value if type(value) is int and abs(value) < 2**100 else -1


def _time(value: Any) -> float | None:
    return float(value) if type(value) in (int, float) and 0 <= value < 2**40 else None


def _members(value: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    found = {}
    room = _MOST_MEMBERS
    for name, said in value.items():
        ranks: list[int] = []
        for span in said.split(","):
            first, _, last = span.partition("-")
            start, end = parse_digits(first), parse_digits(last or first)
            if start is None or end is None or not start <= end < start + room:
                raise ValueError("not a span of ranks")
            ranks += range(start, end + 1)
            room -= end + 1 - start
        found[plain_text(name)] = tuple(ranks)
    return found
