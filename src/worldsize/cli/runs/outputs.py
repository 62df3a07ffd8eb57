"""outputs, path, fetch: what a run has written, where it is, and a copy of it."""

from __future__ import annotations

import argparse
import os
import sys

from worldsize.cli.console import add_output_option, add_run_argument, count_text, find_run, set_completer
from worldsize.cli.output import report, show, show_json
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.table import table
from worldsize.common.named_tuple import cast
from worldsize.common.numbers import bytes_text
from worldsize.compute.capabilities import OUTPUTS
from worldsize.errors import NotFound
from worldsize.service.runs.run import Run
from worldsize.store.output_files import OutputFile, output_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import HasOutputs

_EXAMPLES = {
    "outputs": """examples:
  worldsize outputs                       of the latest run: its files below ./outputs, and in its working directory
  worldsize outputs 417k -o json          [{"path", "bytes", "where": "outputs" or "workdir"}]
  worldsize outputs 417k --no-fetch       of a run on Azure ML: only what has been fetched already

What a run on a service has left there so far is fetched into the run's own directory.""",
    "path": """examples:
  cd $(worldsize path)                    the latest run's directory
  ls $(worldsize path 417k outputs)
  worldsize path 417k model               the place of its output `model`""",
    "fetch": """examples:
  worldsize fetch                         all that the latest run has written, into a directory called as the run
  worldsize fetch '*.pt'                  of the latest run
  worldsize fetch 417k outputs/best --to models""",
}
_PLACES = ("outputs", "logs", "code")
_WHERE = {"outputs": "./outputs", "workdir": "working directory"}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    add_run_argument(parser)
    if verb == "path":
        place = parser.add_argument(
            "place", nargs="?", metavar="PLACE", help="outputs, logs, code, or an output's name"
        )
        set_completer(place, lambda **_: list(_PLACES))
        parser.set_defaults(act=show_path)
        return
    if verb == "fetch":
        parser.add_argument("pattern", nargs="?", metavar="PATTERN", help="only these files: '*.pt', outputs/best")
        parser.add_argument("--to", metavar="DIR", help="where; without it, a new directory called as the run")
        parser.set_defaults(act=run_fetch)
    else:
        parser.set_defaults(act=show_outputs)
    parser.add_argument("--no-fetch", action="store_true", help="do not ask the service")
    add_output_option(parser)


def show_outputs(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    found = _files(run, options)
    if options.output == "json":
        show_json([file._asdict() for file in found])
        return 0
    if found:
        rows = [[file.path, bytes_text(file.bytes), _WHERE[file.where]] for file in found]
        show(*table(rows, ["FILE", "SIZE", "WHERE"]))
    else:
        report(f"run {run.id} has written no files (yet)")
    for name, output in run.outputs.items():
        if not output.path.startswith(run.paths.outputs + os.sep):
            show(f"{name}: {output.path}")
    return 0


def show_path(options: argparse.Namespace) -> int:
    run, place = _run_and_word(options.run, options.place)
    show(_place(run, place))
    return 0


def _place(run: Run, name: str | None) -> str:
    """The directory of a run, or a place of it. NotFound for a name of none."""
    known = {"outputs": run.paths.outputs, "logs": run.paths.logs_dir, "code": run.paths.code}
    if name is None:
        return run.directory
    if name in known:
        return known[name]
    outputs = run.outputs
    if name not in outputs:
        raise NotFound(f"{name!r:.60} is no place of {run.id}", None, f"one of {', '.join([*known, *outputs])}")
    return outputs[name].path


def run_fetch(options: argparse.Namespace) -> int:
    from worldsize.store.output_copies import copy_output, is_wanted

    run, pattern = _run_and_word(options.run, options.pattern)
    found = [file for file in _files(run, options) if is_wanted(file.path, pattern)]
    if not found:
        words = "has written no files (yet)" if pattern is None else f"has no file {pattern!r:.60}"
        raise NotFound(f"run {run.id} {words}", None, f"worldsize outputs {run.id}")
    directory = os.path.abspath(options.to if options.to is not None else run.id)
    total = sum(file.bytes for file in found)
    line, done = ProgressLine() if sys.stderr.isatty() else NoticePrinter(), 0
    try:
        for file in found:
            copy_output(run.paths, file, directory)
            line.transfer("fetch", done := done + file.bytes, total)
    finally:
        line.clear()
    if options.output == "json":
        show_json([{**file._asdict(), "to": os.path.join(directory, file.path)} for file in found])
    else:
        show(*(os.path.join(directory, file.path) for file in found))
        report(f"{count_text(len(found), 'file')}, {bytes_text(total)}, of run {run.id}")
    return 0


def _run_and_word(name: str | None, word: str | None) -> tuple[Run, str | None]:
    """The run, and the word behind it. One word alone that names no run is the word, for the latest run."""
    if name is None or word is not None:
        return find_run(name), word
    if name in _PLACES:
        return find_run(None), name
    try:
        return find_run(name), None
    except NotFound as error:
        try:
            return find_run(None), name
        except NotFound:
            raise error from None


def _files(run: Run, options: argparse.Namespace) -> list[OutputFile]:
    """What the run has written; from a service it is fetched first."""
    if not options.no_fetch and run.offers(OUTPUTS):
        _fetch(run)
    return list(output_files(run.paths))


def _fetch(run: Run) -> None:
    """Write what the service keeps into the run's directory. UsageError for another user's run; what the compute
    raises."""
    run.refuse_foreign("fetch the outputs of")
    handle = run.native()
    assert handle is not None
    line = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        places = {name: output.path for name, output in run.outputs.items()}
        cast("HasOutputs", run.compute).fetch_outputs(handle, run.paths, places, line)
    finally:
        line.clear()
