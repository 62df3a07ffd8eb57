"""Rows about the configured computes, and the verdict where jobs can run. All functions are pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from worldsize.common.named_tuple import NamedTuple
from worldsize.compute.base import CheckResult
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.state.check_rows import BAD, OK, UNKNOWN, CheckRow
from worldsize.wings.doctor.facts import DirectoryFacts
from worldsize.wings.doctor.subjects.installation import HOME
from worldsize.wings.doctor.subjects.machine import NEEDED_HERE
from worldsize.wings.doctor.subjects.rows import no, unknown, yes

_SHARED = frozenset((
    "nfs", "nfs4", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "fuse.ceph", "cifs", "smb3", "pvfs2", "orangefs",
    "glusterfs", "fuse.glusterfs", "panfs", "wekafs", "afs", "9p", "virtiofs", "fuse.juicefs", "fuse.sshfs",
))  # fmt: skip
"""Types of file systems that several machines can mount."""


class ComputeState(NamedTuple):
    """The state of a configured compute, as far as it is known.

    problems   what this machine and account lack to use it
    directory  of its runs; None if its file system does not answer, or if a service keeps the runs (`hosted`)
    answer     what the compute itself answered; "" if it was not asked
    forbidden  the rule of the site that forbids it; "" if none does
    """

    name: str
    type: str
    problems: tuple[CheckResult, ...] = ()
    directory: DirectoryFacts | None = None
    hosted: bool = False
    answer: str = ""
    forbidden: str = ""


class ComputeVerdict(NamedTuple):
    """The verdict about a compute: whether jobs can run on it ("ok", "unknown", "bad"), and the id of the row that
    decides it; "" if all is well."""

    name: str
    type: str
    verdict: str
    row: str = ""


def compute_rows(found: ComputeState) -> Iterator[CheckRow]:
    name, share = f"compute.{found.name}", f"share.{found.name}"
    shares = [each for each in found.problems if each.where == "runs_dir"]
    has_errors = any(each.level == "error" for each in found.problems)
    for each in found.problems:
        row = share if each in shares else name
        value = each.what if each in shares or not each.where else f"{each.where}: {each.what}"
        if each.level == "error":
            yield no(row, f"compute {found.name}", value, each.hint or "correct it in worldsize.toml", needed=True)
        else:
            yield unknown(row, f"compute {found.name}", value, each.hint or "")
    if found.type != LOCAL and not (found.hosted or shares or has_errors):
        yield _share(share, found.directory)
    if found.forbidden:
        yield no(name, f"compute {found.name}", found.forbidden, "name another one: --compute, or default_compute")
    elif len(found.problems) == len(shares) and not has_errors:
        yield yes(name, f"compute {found.name}", f"type {found.type}" + (f", {found.answer}" if found.answer else ""))


def _share(row: str, found: DirectoryFacts | None) -> CheckRow:
    what = "the directory of its runs"
    if found is None:
        return unknown(row, what, "no answer", "the file system of runs_dir does not answer")
    value = f"{found.path} is on {found.kind or 'a file system of unknown type'}"
    if not found.writable:
        fix = "set runs_dir of the compute to a directory that you may write to and all nodes see"
        return no(row, what, f"{found.path} cannot be written to", fix, needed=True)
    if found.kind in _SHARED:
        return yes(row, what, value)
    return unknown(row, what, value, "if not all nodes see it under this path, set runs_dir of the compute")


def verdicts(computes: Sequence[ComputeState], rows: Sequence[CheckRow]) -> list[ComputeVerdict]:
    """Return the verdict about each compute, from the `rows` about it and those about what it needs."""
    return [_verdict(each, [row for row in rows if _is_about(row.id, each)]) for each in computes]


def _is_about(row: str, compute: ComputeState) -> bool:
    own = (f"compute.{compute.name}", f"share.{compute.name}", HOME)
    needed = NEEDED_HERE if compute.type == LOCAL else ()
    return row in own or row in needed or (compute.type == "slurm" and row.startswith("slurm."))


def _verdict(compute: ComputeState, rows: Sequence[CheckRow]) -> ComputeVerdict:
    if compute.forbidden:
        return ComputeVerdict(compute.name, compute.type, BAD, f"compute.{compute.name}")
    for verdict in (BAD, UNKNOWN):
        for row in rows:
            if row.verdict == verdict:
                return ComputeVerdict(compute.name, compute.type, verdict, row.id)
    return ComputeVerdict(compute.name, compute.type, OK)


def verdict_lines(found: Sequence[ComputeVerdict]) -> list[str]:
    """Return the last lines of the screen: on which computes jobs can run, and on which not, with the row that decides
    it."""
    lines = []
    for verdict, words in ((OK, "You can run on: "), (UNKNOWN, "Not known: "), (BAD, "Not: ")):
        named = [_named(each) for each in found if each.verdict == verdict]
        lines += [words + "; ".join(named)] if named else []
    return lines


def _named(found: ComputeVerdict) -> str:
    name = "this machine" if found.name == LOCAL else found.name
    notes = [note for note in (found.type if found.name != LOCAL else "", found.row) if note]
    return f"{name} ({', '.join(notes)})" if notes else name
