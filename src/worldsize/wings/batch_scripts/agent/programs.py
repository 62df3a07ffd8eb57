"""Programs of Slurm that need Python, as a batch script on virtual nodes finds them; srun is in `srun.py`.

`scontrol` answers the queries that scripts make. `sbcast` copies once, because all virtual nodes see the same files.
Like Slurm's sbcast, it creates a new file, and never writes to a file that another user may have created.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence

from worldsize.plan.hostlist import expand_hostlist, fold_hostlist
from worldsize.wings.batch_scripts.agent.option_tables import read_options, sbcast_table

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def main(run_dir: str, words: Sequence[str]) -> int:
    """Run the emulation of the Slurm program that the first of `words` names (scontrol or sbcast; srun for any other
    name), with the rest of `words` as its arguments. Return its exit code."""
    if words[0] == "scontrol":
        return scontrol(words[1:])
    if words[0] == "sbcast":
        return sbcast(words[1:])
    from worldsize.plan.run_paths import RunPaths
    from worldsize.wings.batch_scripts.agent.srun import srun

    return srun(RunPaths(run_dir, int(os.environ.get("WORLDSIZE_ATTEMPT") or 0)), words[1:])


def scontrol(words: Sequence[str]) -> int:
    """Emulate Slurm's scontrol on virtual nodes: print the answer to `show hostnames`, `show hostlist` or `show job` in
    `words`, and report any other command as an error. Return the exit code, 0 or 1."""
    plain = [word for word in words if not word.startswith("-")]
    what = plain[1].lower() if len(plain) > 1 else ""
    try:
        if plain[:1] == ["show"] and what and "hostnames".startswith(what) and len(what) > 4:
            print("\n".join(expand_hostlist(" ".join(plain[2:]) or _variable("SLURM_JOB_NODELIST"))))
            return 0
        if plain[:1] == ["show"] and what in ("hostlist", "hostlistsorted"):
            print(fold_hostlist(expand_hostlist(" ".join(plain[2:]))))
            return 0
    except ValueError as error:
        sys.stderr.write(f"scontrol: error: {error}\n")
        return 1
    if plain[:1] == ["show"] and what in ("job", "jobs", "jobid"):
        return _show_job(plain[2:])
    sys.stderr.write("scontrol: error: worldsize: not on virtual nodes: scontrol {}\n".format(" ".join(words)))
    return 1


def _variable(name: str) -> str:
    return os.environ.get(name, "")


def _show_job(wanted: Sequence[str]) -> int:
    number = _variable("SLURM_JOB_ID")
    if wanted and wanted[0] != number:
        sys.stderr.write("slurm_load_jobs error: Invalid job id specified\n")
        return 1
    print(
        "JobId={} JobName={}\n   UserId={}({})\n   JobState=RUNNING Reason=None Dependency=(null)\n"
        "   Requeue=0 Restarts={} BatchFlag=1 ExitCode=0:0\n   Partition={}\n   NodeList={}\n   BatchHost={}\n"
        "   NumNodes={} NumTasks={} CPUs/Task={}\n   WorkDir={}\n   StdOut={}\n".format(
            number, _variable("SLURM_JOB_NAME"), _variable("SLURM_JOB_USER"), _variable("SLURM_JOB_UID"),
            _variable("SLURM_RESTART_COUNT") or "0", _variable("SLURM_JOB_PARTITION"), _variable("SLURM_JOB_NODELIST"),
            _variable("SLURMD_NODENAME"), _variable("SLURM_JOB_NUM_NODES"),
            _variable("SLURM_NTASKS") or _variable("SLURM_JOB_NUM_NODES"),
            _variable("SLURM_CPUS_PER_TASK") or "1", _variable("SLURM_SUBMIT_DIR"), _variable("WORLDSIZE_BATCH_LOG"),
        )
    )  # fmt: skip
    return 0


def sbcast(words: Sequence[str]) -> int:
    """Copy a file as Slurm's sbcast does; `words` are its options, the source and the target. Return its exit code: 0,
    or 1 after an error message on standard error."""
    names, said, faults = _parse_words(words)
    if faults or len(names) != 2:
        what = "option {} {}".format(*faults[0]) if faults else f"Need two file names, have {len(names)} names"
        sys.stderr.write(f"sbcast: error: {what}\n")
        return 1
    source, target = names
    try:
        _copy(source, target, "force" in said, "preserve" in said)
    except OSError as error:
        sys.stderr.write(f"sbcast: error: {error.filename or target}: {error.strerror}\n")
        return 1
    return 0


def _parse_words(words: Sequence[str]) -> tuple[list[str], set[str], list[tuple[str, str]]]:
    """Parse the arguments of sbcast. Return the file names, the names of the options, and the words that are neither,
    each with the reason. Options may follow file names."""
    names: list[str] = []
    said: set[str] = set()
    faults: list[tuple[str, str]] = []
    while words:
        read = read_options(words, sbcast_table())
        said.update(option.name for option in read.options)
        faults += [(word, why) for word, why, _ in read.unknown]
        names += words[read.rest : read.rest + 1]
        words = words[read.rest + 1 :]
    return names, said, faults


def _copy(source: str, target: str, force: bool, preserve: bool) -> None:
    """Copy `source` to `target`. Replace an existing target by a new file of the same name if it is this user's own
    file, or if `force` is set. In a directory with the sticky bit, no user can replace the file of another user. A
    directory is never accepted as the target, because another user may have created it under that name. Raise OSError.
    """
    try:
        _make(target, source, preserve)
    except FileExistsError:
        if not force and not _is_own_file(target):
            raise
        beside = f"{target}.{os.getpid()}.part"
        _make(beside, source, preserve)
        try:
            os.rename(beside, target)
        except OSError as error:
            os.unlink(beside)
            raise OSError(error.errno, error.strerror, target) from None


def _make(path: str, source: str, preserve: bool) -> None:
    """Create a new file at `path` with the content of `source`, completely or not at all. Raise OSError; raise
    FileExistsError if `path` exists already."""
    import shutil

    with open(source, "rb") as file:
        status = os.fstat(file.fileno())
        with open(os.open(path, _NEW, 0o600), "wb") as copy:
            try:
                shutil.copyfileobj(file, copy)
                copy.flush()
                os.fchmod(copy.fileno(), status.st_mode & 0o755)  # the copy may be where other users have access
                if preserve:
                    os.utime(copy.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
            except BaseException:
                os.unlink(path)
                raise


def _is_own_file(path: str) -> bool:
    status = os.lstat(path)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
