"""The command `bugreport`: writes one archive about a run, to send with a report about worldsize."""

from __future__ import annotations

import argparse
import io
import json
import os
import tarfile
from collections.abc import Iterator

from worldsize.cli.console import add_run_argument, count_text, current_directory, find_run
from worldsize.cli.output import report, show
from worldsize.common.atomic_files import storage_error, write_all
from worldsize.common.numbers import bytes_text
from worldsize.errors import UsageError, WorldsizeError
from worldsize.plan.run_paths import RunPaths
from worldsize.plan.secrets_file import plan_secret_values, read_masked_plan, read_unmasked_plan
from worldsize.service.ownership import is_own
from worldsize.service.runs.run import Run
from worldsize.trust.secrets import secret_values
from worldsize.wings.bug_report.contents import read_redacted, redactor, run_files
from worldsize.wings.bug_report.machine import machine_facts

_EXAMPLES = """examples:
  worldsize bugreport                               of the latest run that was started from this directory
  worldsize bugreport 417k --to /tmp/report.tar.gz

The archive holds the run's records and plan, its agents' notes, the ends of its logs, and versions and facts of
this machine; no code, no outputs, no inputs. Secrets are masked as far as worldsize knows them, and your home is
written ~. Names of hosts and of the user, paths, the command and the ranks' output are in it: read it
before you send it."""

_README = """A report about the worldsize run {run}.

machine.json   versions, and facts of the machine on which this report was made
run/           of the run's directory: its job, record, plan and result, its agents' notes (events, exit, errors),
               and the ends of its logs. Code, outputs and inputs are not in it.

Secrets are masked (***) as far as worldsize knows them by name, by shape or as the job's own. The ranks' output may
contain others. Names of hosts and of the user, paths, the command and its output are in it: read it before you send it.
"""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument("--to", metavar="FILE.tar.gz", help="the archive (default: worldsize-RUN.tar.gz, here)")
    parser.set_defaults(act=make_report)


def make_report(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    path = os.path.abspath(os.path.join(current_directory(), options.to or f"worldsize-{run.id}.tar.gz"))
    files = dict(report_files(run))
    _write_archive(path, f"worldsize-{run.id}", files)
    size = bytes_text(os.stat(path).st_size)
    report(f"{count_text(len(files), 'file')}, {size}: read them before you send them (tar -xzf, README.txt)")
    show(path)
    return 0


def report_files(run: Run) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each file of the bug report's archive about `run`, with secrets masked."""
    redact = redactor(known_secrets(run.paths), os.path.expanduser("~"))
    yield "README.txt", _README.format(run=run.id)
    yield "machine.json", json.dumps(redact(machine_facts(run.paths.root, os.environ)), indent=1) + "\n"
    for name, most in run_files(run.paths):
        text = read_redacted(run.paths.root, name, most, redact)
        if text:
            yield f"run/{name}", text


def known_secrets(paths: RunPaths) -> list[str]:
    """Return the values of a run's secrets, as far as this process can read them: those that are kept until the run
    ends, and those of this process's variables of the same names. Empty if the run is not this user's own."""
    found: list[str] = []
    if not is_own(paths):
        return found
    try:
        plan = read_masked_plan(paths)
    except (OSError, ValueError):
        return found
    found = secret_values({name: os.environ[name] for name in plan.secrets if name in os.environ}, plan.secrets)
    try:
        found += plan_secret_values(read_unmasked_plan(paths))
    except (OSError, ValueError, WorldsizeError):
        pass  # the run has ended: they are gone
    return list(dict.fromkeys([*found, *secret_values(os.environ)]))


def _write_archive(path: str, top: str, files: dict[str, str]) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=6) as tar:
        for name, text in files.items():
            data = text.encode("utf-8", "replace")
            member = tarfile.TarInfo(f"{top}/{name}")
            member.size, member.mode = len(data), 0o600
            tar.addfile(member, io.BytesIO(data))
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            write_all(descriptor, archive.getvalue())
        finally:
            os.close(descriptor)
    except FileExistsError:
        raise UsageError("exists already", path, "name another file: --to FILE.tar.gz") from None
    except OSError as error:
        raise storage_error(error, path) from None
