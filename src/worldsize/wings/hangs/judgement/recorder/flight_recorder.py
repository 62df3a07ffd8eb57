"""Dumps of PyTorch's Flight Recorder, one of each rank: pickles, or JSON of the same form.

The user's processes write them, so they may contain anything. A dump that cannot be understood has a `fault`, and
nothing is raised. Facts that the format does not state, observed with torch 2.13:

- A rank's dump of gloo (`_dump_fr_trace`) leaves each entry in the state "scheduled" forever; `retired`
  becomes true when the call has ended. NCCL's (`_dump_nccl_trace`) has states, and also retires calls that
  have failed.
- Sequence numbers begin with 1 and count per process group and backend.
- `pg_id` counts the groups of one process: two ranks' groups with the same number need not be the same. The
  name distinguishes them.
- gloo's `pg_config` has one entry under "", of the group that was made last, without ranks if there are
  several.
- Point-to-point calls of gloo are not recorded.

Standard library only (Python >= 3.8).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from worldsize.common.atomic_files import read_file
from worldsize.common.named_tuple import Any, NamedTuple
from worldsize.wings.hangs.judgement.recorder.pickled_values import MOST_BYTES, NotReadable, read_pickle

WHOLE_WORLD = "default_pg"
"""PyTorch's name for the group of all ranks."""

_MOST_ENTRIES = 100_000
_MOST_RANKS = 100_000
_MOST_FRAMES = 64
_MOST_SIZES = 4096
_LONGEST_TEXT = 300
_LARGEST = 2**62


class Entry(NamedTuple):
    """A call that a rank has made.

    group       the process group's name, the same on all its ranks
    group_name  the purpose of the group ("default_pg", "mesh_dp", "undefined")
    backend     "nccl", "gloo"; "" if the record does not contain it
    seq         the collective call's number in its group and backend; several coalesced calls share one
    p2p_seq     the same for point-to-point calls
    op          "all_reduce", "broadcast", "send 0->1"
    sizes       those of each input tensor; `dtypes` likewise
    state       "scheduled", "started", "completed"; `retired`: whether the recorder no longer waits for it
    created     Unix seconds by the rank's clock, 0 if unknown
    frames      file, line, function; the innermost first
    """

    group: str
    group_name: str
    backend: str
    seq: int
    p2p_seq: int
    is_p2p: bool
    op: str
    sizes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    state: str
    retired: bool
    created: float
    frames: tuple[tuple[str, int, str], ...]


class Dump(NamedTuple):
    """The record of one rank.

    entries  in the order of the calls
    members  the ranks of each group, by its name, if the record contains them
    whole    whether no older entry has been overwritten
    taken    the time of the dump, in Unix seconds by the rank's clock; None if unknown
    fault    the reason why the dump cannot be read, in words that can follow "it"; "" if it can
    """

    rank: int
    entries: tuple[Entry, ...]
    members: Mapping[str, tuple[int, ...]]
    whole: bool = True
    taken: float | None = None
    fault: str = ""


def read_dump_file(path: str, rank: int, taken: float | None = None) -> Dump:
    """Return the Flight Recorder dump of `rank` in the file `path`. If the file is missing, damaged, or of another
    kind, the dump has a `fault`."""
    try:
        data = read_file(path, MOST_BYTES + 1)
    except FileNotFoundError:
        return _faulty(rank, "is missing")
    except OSError as error:
        return _faulty(rank, f"cannot be read: {error.strerror or error}")
    return read_dump(data, rank, taken)


def read_dump(data: bytes, rank: int, taken: float | None = None) -> Dump:
    """Return the Flight Recorder dump of `rank` that `data` holds, as a pickle or as JSON. The dump has a `fault` if
    `data` holds anything else."""
    try:
        value = _json_value(data) if data[:1] in (b"{", b" ", b"\n") else read_pickle(data)
        return _dump(value, rank, taken)
    except NotReadable as error:
        return _faulty(rank, str(error))


def _json_value(data: bytes) -> Any:
    import json

    if len(data) > MOST_BYTES:
        raise NotReadable(f"is longer than {MOST_BYTES >> 20} MiB")
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError, MemoryError):
        raise NotReadable("is damaged") from None


def _faulty(rank: int, fault: str) -> Dump:
    return Dump(rank, (), {}, False, None, fault)


def merged_dumps(first: Dump, second: Dump) -> Dump:
    """Return one Flight Recorder dump from the two of a rank's backends, each of which has a recorder of its own. If
    one cannot be read, return the other."""
    if first.fault or second.fault:
        return second if first.fault else first
    entries = sorted((*first.entries, *second.entries), key=lambda entry: entry.created)
    taken = min((each.taken for each in (first, second) if each.taken is not None), default=None)
    members = {**first.members, **second.members}
    return Dump(first.rank, tuple(entries), members, first.whole and second.whole, taken)


def _dump(value: Any, rank: int, taken: float | None) -> Dump:
    entries = value.get("entries") if isinstance(value, dict) else None
    if not isinstance(entries, list):
        raise NotReadable("is not a dump of the Flight Recorder")
    if len(entries) > _MOST_ENTRIES:
        raise NotReadable("has too many entries")
    known = [each for each in entries if isinstance(each, dict)]
    found = tuple(entry for entry in map(_entry, known) if entry is not None)
    if len(found) < len(entries):
        raise NotReadable("has entries that are not of the Flight Recorder")
    first = min((plain_number(each.get("record_id")) for each in known), default=0)
    return Dump(rank, found, _members(value.get("pg_config")), first <= 0, taken)


def _entry(value: Mapping[Any, Any]) -> Entry | None:
    """Return the recorded call (an Entry) in a value of a Flight Recorder dump. None if the value has no process group,
    or no number."""
    group = value.get("process_group")
    seq, p2p_seq = plain_number(value.get("collective_seq_id")), plain_number(value.get("p2p_seq_id"))
    if not isinstance(group, (list, tuple)) or len(group) != 2 or (seq < 0 and p2p_seq < 0):
        return None
    backend, colon, op = plain_text(value.get("profiling_name")).partition(":")
    return Entry(
        plain_text(group[0]),
        plain_text(group[1]),
        backend if colon else "",
        seq,
        p2p_seq,
        value.get("is_p2p") is True,
        op if colon else backend,
        _sizes(value.get("input_sizes")),
        tuple(plain_text(each) for each in _items(value.get("input_dtypes"), _MOST_SIZES)),
        plain_text(value.get("state")),
        value.get("retired") is True,
        max(0, plain_number(value.get("time_created_ns"))) / 1e9,
        tuple(_frames(value.get("frames"))),
    )


def _members(value: Any) -> dict[str, tuple[int, ...]]:
    """Return a mapping of each process group's name to its ranks, from the `pg_config` of a Flight Recorder dump, which
    has the ranks as the text of a list."""
    found = {}
    for name, group in list(value.items())[:_MOST_RANKS] if isinstance(value, dict) else ():
        said = group.get("ranks") if isinstance(group, dict) else None
        words = said.strip("[] ").split(",", _MOST_RANKS) if isinstance(said, str) else ()
        digits = [word.strip() for word in words]
        if digits and all(word.isascii() and word.isdigit() and len(word) < 8 for word in digits):
            found[plain_text(name)] = tuple(sorted(set(map(int, digits))))
    return found


def _frames(value: Any) -> Iterable[tuple[str, int, str]]:
    for frame in _items(value, _MOST_FRAMES):
        if isinstance(frame, dict):
            yield (
                plain_text(frame.get("filename")),
                max(0, plain_number(frame.get("line"))),
                plain_text(frame.get("name")),
            )


def _sizes(value: Any) -> tuple[tuple[int, ...], ...]:
    sizes = _items(value, _MOST_SIZES)
    return tuple(tuple(plain_number(each) for each in _items(size, _MOST_FRAMES)) for size in sizes)


def _items(value: Any, most: int) -> Any:
    return value[:most] if isinstance(value, (list, tuple)) else ()


def plain_number(value: Any) -> int:
    """Return `value` if it is a whole number that is not negative and not too large; -1 for any other value."""
    return value if type(value) is int and 0 <= value < _LARGEST else -1


def plain_text(value: Any) -> str:
    """Return `value` as a text that is safe for any terminal, cut if it is too long; "" for a value that is no text.
    Whole numbers count as texts."""
    said = str(value) if type(value) is int and abs(value) < _LARGEST else value
    if not isinstance(said, str):
        return ""
    return "".join(sign if sign.isprintable() else "?" for sign in said[:_LONGEST_TEXT])
