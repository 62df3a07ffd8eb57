"""Rows about Slurm, from what its programs print. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import shorten

from worldsize.compute.slurm.cluster import gpus_of
from worldsize.compute.slurm.errors import error_text_of
from worldsize.state.check_rows import OK, CheckRow
from worldsize.wings.doctor.programs import Answer
from worldsize.wings.doctor.questions import SLURM
from worldsize.wings.doctor.subjects.machine import Answers
from worldsize.wings.doctor.subjects.rows import no, unknown, yes

_OLDEST, _NEWEST = (20, 11), (26, 5)
"""The releases whose programs the tests cover."""

_SHOWN = 6
_ERROR_WIDTH = 100
_LOGIN = "log in to a login node of the cluster, or load its module (often `module load slurm`)"
_DOWN = re.compile(r"\bis DOWN\b")
_UP = re.compile(r"\bis UP\b")
_NO_DATABASE = ("not running", "accounting storage", "slurmdbd", "not supported")


def slurm_rows(answers: Answers, user: str, needed: bool) -> Iterator[CheckRow]:
    """Yield the rows about Slurm. `needed` is whether a compute of type slurm is configured."""
    programs = {name: answers[name] for name in SLURM}
    present = [name for name in SLURM if programs[name].path]
    if not present:
        yield no("slurm.programs", "Slurm", "no sbatch on PATH", _LOGIN, needed)
        return
    missing = [name for name in SLURM if name not in present]
    if missing:
        yield no("slurm.programs", "Slurm's programs", f"no {', '.join(missing)} on PATH", _LOGIN, needed)
    else:
        yield yes("slurm.programs", "Slurm's programs", ", ".join(present))
    controller = _controller(answers["ping"], needed)
    yield controller
    if controller.verdict != OK:
        return  # its other programs would print the same, each in its own words
    yield _version(programs["sbatch"] if programs["sbatch"].path else programs[present[0]])
    yield _partitions(answers["partitions"], needed)
    yield _accounts(answers["associations"], answers["account"], user)


def _version(answer: Answer) -> CheckRow:
    row, what = "slurm.version", "its version"
    found = re.search(r"(\d+)\.(\d+)[.\w-]*", answer.line) if answer.succeeded else None
    if found is None:
        return unknown(row, what, answer.path, answer.why or answer.line)
    release = int(found[1]), int(found[2])
    if release < _OLDEST:
        return no(row, what, found[0], "worldsize needs Slurm 20.11 or newer")
    if release > _NEWEST:
        return unknown(row, what, found[0], "newer than all that the tests cover: worldsize selftest --compute NAME")
    return yes(row, what, found[0])


def _controller(answer: Answer, needed: bool) -> CheckRow:
    row, what = "slurm.controller", "its controller"
    if _UP.search(answer.out):
        return yes(row, what, answer.line)
    if not answer.path or answer.code is None:
        return unknown(row, what, "scontrol ping", answer.why or "there is no scontrol")
    if _DOWN.search(answer.out):
        return no(row, what, answer.line, "ask who runs the cluster: slurmctld is down", needed)
    fix = "run this on the cluster's login node, or set SLURM_CONF to the cluster's slurm.conf"
    return no(row, what, _error(answer), fix, needed)


def _partitions(answer: Answer, needed: bool) -> CheckRow:
    row, what = "slurm.partitions", "partitions that you may use"
    if not answer.succeeded:
        return unknown(row, what, "sinfo", answer.why or _error(answer))
    seen: dict[str, tuple[int, str]] = {}
    for line in answer.out.splitlines():
        name, up, limit, nodes, gres = (line.strip().split("|") + [""] * 5)[:5]
        if not name or not nodes.isdecimal():
            continue
        kind, gpus = gpus_of(gres)
        state = "" if up == "up" else f", {up}"
        each = f", {gpus} {kind or 'GPU'} each" if gpus else ""
        before = seen.get(name, (0, ""))[0]
        seen[name] = before + int(nodes), f"{each}, {limit}{state}"
    if not seen:
        return no(row, what, "none", "ask who runs the cluster which partition your account may use", needed)
    shown = [f"{name} ({nodes} nodes{rest})" for name, (nodes, rest) in seen.items()]
    return yes(row, what, _listed(shown))


def _accounts(associations: Answer, account: Answer, user: str) -> CheckRow:
    row, what = "slurm.accounts", f"accounts of {user}"
    if not associations.succeeded:
        text = _error(associations)
        if any(word in text.lower() for word in _NO_DATABASE):
            return yes(row, what, "none needed: the cluster keeps no accounts")
        return unknown(row, what, "sacctmgr", associations.why or text or "it is not on PATH")
    found: dict[str, str] = {}
    for line in associations.out.splitlines():
        name, partition, qos, _ = (line.strip().split("|") + [""] * 4)[:4]
        if name:
            found[name + (f" in {partition}" if partition else "")] = qos
    if not found:
        fix = "ask who runs the cluster for an account (sacctmgr add user)"
        return no(row, what, "none in the cluster's database", fix)
    default = account.line if account.succeeded else ""
    shown = [name + (f" (qos {qos})" if qos else "") for name, qos in found.items()]
    return yes(row, what, _listed(shown) + (f"; by default {default}" if default else ""))


def _error(answer: Answer) -> str:
    """Return the beginning of a program's error text."""
    return shorten(error_text_of(answer.out), _ERROR_WIDTH, placeholder=" …")


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return ", ".join(texts[:_SHOWN]) + more
