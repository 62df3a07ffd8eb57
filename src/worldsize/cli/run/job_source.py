"""The conversion of the command line's words to a job: from a job file, a batch script, or the command after --."""

from __future__ import annotations

import argparse
import os
import shlex

from worldsize.cli.console import current_directory
from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.job import Job

_HEAD = 1 << 16
"""Bytes of a file that are read to recognise a batch script."""


def requested_job(options: argparse.Namespace) -> tuple[Job, tuple[str, ...], Any]:
    """Return the job that the command line requests, from a job file, a batch script or the command after --, with the
    warnings about the file and a mapping from the job's keys to the lines of the file. Raise UsageError if the words do
    not fit together; raise JobError."""
    if options.words is not None:
        if options.job is not None:
            raise UsageError(f"both a job file ({options.job}) and a command after --", None, "give one of them")
        if not options.words or not options.words[0]:
            raise UsageError("no command after --", None, "worldsize run -w 2x4 -- python train.py")
        code = os.path.abspath(os.path.join(current_directory(), options.code or ""))
        return (
            Job(command=shlex.join(options.words), argv=tuple(options.words), code=code, source="command line"),
            (),
            {},
        )
    if options.job is None:
        raise UsageError(
            "nothing to run", None, "name a job file, or a command: worldsize run -w 2x4 -- python train.py"
        )
    if _is_batch_script(options.job):
        from worldsize.jobspec.batch_script import script_reader

        elsewhere = os.path.abspath(os.path.join(current_directory(), options.code)) if options.code else None
        loaded = script_reader().load_script(options.job, current_directory(), elsewhere)
        return loaded.job, loaded.warnings, loaded.lines
    if options.code:
        raise UsageError("--code goes with a command after --", None, "a job file has its own code:")
    from worldsize.jobspec.reading.job_file import load_job

    loaded = load_job(_check_job_file(options.job, options.typed))
    return loaded.job, loaded.warnings, loaded.lines


def script_job(script: str) -> Job:
    """Return a job that executes the Python script `script`, as `run -- python train.py` makes it. Its code is the
    current directory, or the script's own directory if that is not in the current one. Raise UsageError if there is no
    such script."""
    if not os.path.isfile(script):
        raise UsageError(f"{script:.200}: no such script", hint="name a job file, or a script")
    here, path = current_directory(), os.path.abspath(script)
    code = here if path.startswith(os.path.join(here, "")) else os.path.dirname(path)
    words = ("python", os.path.relpath(path, code))
    return Job(command=" ".join(words), argv=words, code=code, source="command line")


def _is_batch_script(name: str) -> bool:
    if name.endswith((".yml", ".yaml", ".py")) or not os.path.isfile(name):
        return False
    from worldsize.common.atomic_files import read_file
    from worldsize.jobspec.batch_script import looks_like_batch_script

    return looks_like_batch_script(name, read_file(name, _HEAD).decode("utf-8", "replace"))


def _check_job_file(name: str, typed: list[str]) -> str:
    """Check that `name` is a job file, and return it. Raise UsageError if the word clearly means something else, such
    as a script. Raise NotFound if there is no such file."""
    if name.endswith((".yml", ".yaml", ".json")) and os.path.exists(name):
        return name
    from worldsize.cli.suggestions import missing_file_error, wrong_job_file_error

    mistake = wrong_job_file_error(name, typed)
    if mistake is not None:
        raise mistake
    if not os.path.lexists(name):
        raise missing_file_error(name)
    return name
