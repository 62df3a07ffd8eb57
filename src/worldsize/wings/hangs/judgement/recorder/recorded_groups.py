"""Process groups, combined from the dumps of their ranks: which rank has made which call, and which calls have ended.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.recorder.flight_recorder import WHOLE_WORLD, Dump, Entry

_SIZED = frozenset(("all_reduce", "allreduce", "broadcast", "reduce", "_all_gather_base", "_reduce_scatter_base"))
"""Calls whose inputs have the same number of elements on all ranks. In some of the other calls they may legitimately
differ."""


class Group(NamedTuple):
    """A process group on one backend.

    name     "group 5 (mesh_tp)", "group 2"; "" for the group of all ranks
    calls    by rank and by number, the entries that share the number; for each rank whose record shows its position
    unseen   members whose position no record shows
    """

    name: str
    calls: Mapping[int, Mapping[int, tuple[Entry, ...]]]
    unseen: tuple[int, ...]

    def last(self, rank: int) -> int:
        """Return the number of the last collective call that `rank` has made in this process group. 0 if it has made
        none."""
        return max(self.calls[rank], default=0)

    def shared(self) -> list[int]:
        """Return the numbers of the collective calls that the record of every rank of this process group holds,
        ascending. Older ones may be overwritten in some records."""
        every = [set(calls) for calls in self.calls.values()]
        return sorted(set.intersection(*every)) if every else []


def groups_of(dumps: Sequence[Dump], world_size: int) -> list[Group]:
    """Return the process groups in which the Flight Recorder dumps have a collective call, that of all ranks first. If
    no record contains a group's ranks, a rank that has made no call in the group is not known to belong to it."""
    found: dict[tuple[str, str, tuple[int, ...]], dict[int, dict[int, list[Entry]]]] = {}
    names: dict[tuple[str, str], str] = {}
    configured = _configured(dumps)
    for dump in dumps:
        own: dict[tuple[str, str, str], dict[int, list[Entry]]] = {}
        for entry in dump.entries:
            if not entry.is_p2p and entry.seq > 0:
                calls = own.setdefault((entry.backend, entry.group, entry.group_name), {})
                calls.setdefault(entry.seq, []).append(entry)
        for (backend, group, title), calls in own.items():
            key = (backend, group, _members(dump, group, title, configured, world_size))
            names[key[:2]] = title
            found.setdefault(key, {}).setdefault(dump.rank, {}).update(calls)
    made = [_group(key, names[key[:2]], calls, dumps) for key, calls in found.items()]
    return sorted(made, key=lambda each: each.name)


def _configured(dumps: Iterable[Dump]) -> dict[str, set[tuple[int, ...]]]:
    found: dict[str, set[tuple[int, ...]]] = {}
    for dump in dumps:
        for name, ranks in dump.members.items():
            found.setdefault(name, set()).add(ranks)
    return found


def _members(
    dump: Dump, group: str, title: str, configured: Mapping[str, set[tuple[int, ...]]], world_size: int
) -> tuple[int, ...]:
    """Return the ranks of a process group: all ranks of the run for the default group, else those in the dumps'
    configuration. Empty if only the recorded calls show them."""
    if title == WHOLE_WORLD:
        return tuple(range(world_size))
    own = dump.members.get(group, ()) if group else ()
    others = configured.get(group, set()) if group else set()
    ranks = own or (next(iter(others)) if len(others) == 1 else ())
    return ranks if dump.rank in ranks and ranks[-1] < world_size else ()


def _group(
    key: tuple[str, str, tuple[int, ...]],
    title: str,
    calls: Mapping[int, Mapping[int, Sequence[Entry]]],
    dumps: Sequence[Dump],
) -> Group:
    _, name, members = key
    whole = {dump.rank for dump in dumps if dump.whole and not dump.fault} if len(calls) < len(members) else set()
    known = {rank: {seq: tuple(each) for seq, each in said.items()} for rank, said in calls.items()}
    for rank in set(members) - set(known):
        if rank in whole:
            known[rank] = {}
    what = f" ({title})" if title not in ("", "undefined") else ""
    title = "" if title == WHOLE_WORLD else f"group {name}{what}"
    return Group(title, known, tuple(sorted(set(members) - set(known))))


class Ends:
    """The knowledge of which calls have ended, according to a backend's records.

    If any entry of the backend is started or completed, the states show it. Otherwise, if any is retired, `retired`
    shows it. Otherwise nothing does.
    """

    def __init__(self, dumps: Iterable[Dump]) -> None:
        self._by_state: set[str] = set()
        self._by_retirement: set[str] = set()
        for dump in dumps:
            for entry in dump.entries:
                if entry.state in ("started", "completed"):
                    self._by_state.add(entry.backend)
                elif entry.retired:
                    self._by_retirement.add(entry.backend)

    def have(self, entries: Iterable[Entry]) -> bool | None:
        """Return whether all of the recorded calls `entries` have ended. None if the records do not show it."""
        ended = [self._has(entry) for entry in entries]
        return None if None in ended else all(ended)

    def _has(self, entry: Entry) -> bool | None:
        if entry.backend in self._by_state:
            return entry.state == "completed"
        return entry.retired if entry.backend in self._by_retirement else None


def signature(entries: Iterable[Entry]) -> tuple[object, ...]:
    """Return the values of recorded calls that must be the same on all ranks: the operations, and the number of
    elements and types of their inputs if those are equal on all ranks."""
    return tuple(
        (entry.op, tuple(map(elements, entry.sizes)), entry.dtypes) if entry.op in _SIZED else (entry.op,)
        for entry in entries
    )


def elements(size: Iterable[int]) -> int:
    """Return the number of elements of a tensor with the dimensions `size`."""
    count = 1
    for each in size:
        count *= each
    return count


def own_frame(entry: Entry) -> tuple[str, int, str] | None:
    """Return the innermost frame (file, line, function) of a recorded call that is not PyTorch's own. None if there is
    none."""
    return next((frame for frame in entry.frames if frame[0] and "/torch/" not in frame[0]), None)
