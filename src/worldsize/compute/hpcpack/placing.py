"""Whether the nodes will see what a run needs, and whether HPC Pack takes the line that starts it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from worldsize.compute.base import CheckResult
from worldsize.compute.hpcpack.render import LONGEST_LINE, Asked, command_lines
from worldsize.compute.hpcpack.share import Share
from worldsize.plan.launch import Plan
from worldsize.plan.mapping import is_mapped
from worldsize.plan.paths import RunPaths
from worldsize.spec.job import Input, Job
from worldsize.spec.paths import is_remote

_ID = "0" * 22
"""As long as a run's id, which is not known yet."""


def check_share(share: Share | None, runs_dir: str | None, job: Job) -> Iterator[CheckResult]:
    """That the nodes will see the run, and what it reads and writes. Makes a directory on the share, and removes it."""
    if share is None or not share.node.startswith("/"):
        hint = r"share = { head = '\\HEAD\CcpSpoolDir\app', node = '/app', local = '/mnt/app' }"
        yield CheckResult("error", "the compute does not say where the nodes have the share", "share.node", hint)
        return
    if share.local is None or not os.path.isdir(share.local):
        where = share.local or "no directory that is known"
        hint = "mount it (`worldsize hpcpack share` says how), and name the directory: share.local of the compute"
        yield CheckResult("error", "the share is not mounted here: %s" % where, "share.local", hint)
        return
    mapped = share.mapped()
    if runs_dir and not is_mapped(runs_dir, mapped) and not is_mapped(os.path.realpath(runs_dir), mapped):
        what = "%s does not lie on the share (%s): no node would see the run" % (runs_dir, share.local)
        yield CheckResult(
            "error", what, "runs_dir", "leave it out: runs are kept in %s" % os.path.join(share.local, "runs")
        )
    for key, path in _paths(job):
        if not is_mapped(path, mapped) and not is_mapped(os.path.realpath(path), mapped):
            hint = "copy it to the share (%s), and name it there" % share.local
            yield CheckResult("error", "%s does not lie on the share: no node would see it" % path, key, hint)
    yield from _probe(_nearest(runs_dir or share.local))


def check_lines(asked: Asked, plan: Plan, runs_dir: str) -> Iterator[CheckResult]:
    """Whether a run in `runs_dir`, or an element of an array there, has command lines that are not too long."""
    root = os.path.join(runs_dir, _ID, _ID + "_9999") if "_" in plan.run_id else os.path.join(runs_dir, _ID)
    longest = max(command_lines(asked, plan, RunPaths(root)), key=len)
    if len(longest) > LONGEST_LINE:
        what = "a task's command line would have %d characters, and HPC Pack takes %d: %s"
        hint = "a shorter `runs_dir`, `share.node` or `python` of the compute"
        yield CheckResult("error", what % (len(longest), LONGEST_LINE, longest), "hpcpack", hint)


def _paths(job: Job) -> Iterator[tuple[str, str]]:
    for name, value in job.inputs.items():
        if isinstance(value, Input) and value.path and not is_remote(value.path):
            yield "inputs.%s.path" % name, value.path
    for name, output in job.outputs.items():
        if output.path and not is_remote(output.path):
            yield "outputs.%s.path" % name, output.path


def _nearest(directory: str) -> str:
    """The directory itself, or the nearest one above it that exists."""
    while not os.path.isdir(directory) and os.path.dirname(directory) != directory:
        directory = os.path.dirname(directory)
    return directory


def _probe(directory: str) -> Iterator[CheckResult]:
    """Whether we may write there, and what of a file system its file server leaves us."""
    probe = os.path.join(directory, ".worldsize-check-%s" % os.urandom(4).hex())
    file, link, hard = (os.path.join(probe, name) for name in ("file", "link", "hard"))
    try:
        os.mkdir(probe, 0o700)
    except OSError as error:
        hint = "it must be writable for you, here and on the nodes"
        yield CheckResult("error", "the share cannot be written: %s" % error.strerror, directory, hint)
        return
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        modes = [stat.S_IMODE(os.stat(path).st_mode) for path in (probe, file)]
        if any(mode & 0o077 for mode in modes):
            what = (
                "the share keeps no permissions (a directory made 0700 is %04o): who reaches it reads the run"
                % modes[0]
            )
            yield CheckResult("notice", what, directory, "give only people whom you trust an account on it")
        if not _possible(lambda: os.symlink("file", link)):
            what = "the share knows no symbolic links: ./outputs and ./logs of the command stay in the run's code/"
            yield CheckResult("notice", what, directory, "mount it with `mfsymlinks`, here and on every node")
        if not _possible(lambda: os.link(file, hard)):
            yield CheckResult("notice", "the share knows no hard links: each run copies its code", directory)
    except OSError as error:
        yield CheckResult("error", "the share cannot be written: %s" % error.strerror, directory)
    finally:
        for path in (link, hard, file):
            _possible(lambda path=path: os.unlink(path))  # type: ignore[misc]
        _possible(lambda: os.rmdir(probe))


def _possible(act: Callable[[], None]) -> bool:
    try:
        act()
    except OSError:
        return False
    return True
