"""The verbs outputs, path and fetch: the files that a run has written, their location, and a copy of them."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from worldsize.cli.console import add_output_option, add_run_argument, count_text, find_runs, require_run, set_completer
from worldsize.cli.output import report, show, show_json
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.cli.table import table
from worldsize.common.named_tuple import Any, NamedTuple, cast
from worldsize.common.numbers import bytes_text
from worldsize.compute.base import OUTPUTS
from worldsize.errors import NotFound
from worldsize.service.runs.run import Run
from worldsize.store.output_files import OutputFile, file_at, output_files, place_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import HasOutputs
    from worldsize.service.runs.array import RunArray

_EXAMPLES = {
    "outputs": """examples:
  worldsize outputs                       of the latest run: its files below ./outputs, and in its working directory
  worldsize outputs 417k -o json          [{"path", "bytes", "where": "outputs" or "workdir", "run"}]
  worldsize outputs 417k --no-fetch       of a run on Azure ML: only files already fetched""",
    "path": """examples:
  cd $(worldsize path)                    the latest run's directory
  ls $(worldsize path 417k outputs)
  worldsize path 417k model               the place of its output `model`""",
    "fetch": """examples:
  worldsize fetch                         all files of the latest run, into a directory named after the run
  worldsize fetch '*.pt'                  of the latest run
  worldsize fetch 417k outputs/best --to models

Files that a run has left on a service are first fetched into the run's own directory, once.""",
}
_PLACES = ("outputs", "logs", "code")
_WHERE = {"outputs": "./outputs", "workdir": "working directory"}


class _Written(NamedTuple):
    """A file of a run. `below` is the directory that separates an element's files from those of other elements; "" for
    a single run."""

    run: Run
    file: OutputFile
    below: str

    def values(self) -> dict[str, Any]:
        return {**self.file._asdict(), "run": self.run.id}


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
        parser.add_argument(
            "pattern", nargs="?", metavar="PATTERN", help="only these files: '*.pt', outputs/best, or an output's name"
        )
        parser.add_argument("--to", metavar="DIR", help="destination; default: a new directory named after the run")
        parser.set_defaults(act=run_fetch)
    else:
        parser.set_defaults(act=show_outputs)
    parser.add_argument(
        "--no-fetch", action="store_true", help="do not query the service: only files that are already here"
    )
    add_output_option(parser)


def show_outputs(options: argparse.Namespace) -> int:
    runs = find_runs(options.run)
    found = [each for run in runs.runs() for each in _written(runs, run, options)]
    if options.output == "json":
        show_json([each.values() for each in found])
        return 0
    if found:
        rows = [[*([each.below] if each.below else []), each.file.path, *_words(each.file)] for each in found]
        show(*table(rows, [*(["RUN"] if found[0].below else []), "FILE", "SIZE", "WHERE"]))
    else:
        report(f"{runs.noun} {runs.id} has written no files (yet)")
    for run in runs.runs():
        for name, output in run.outputs.items():
            if not output.path.startswith(run.paths.outputs + os.sep):
                show(f"{name}: {output.path}")
    return 0


def _words(file: OutputFile) -> list[str]:
    return [bytes_text(file.bytes), _WHERE[file.where]]


def show_path(options: argparse.Namespace) -> int:
    runs, place = _runs_and_word(options.run, options.place)
    show(_place(runs, place))
    return 0


def _place(runs: Run | RunArray, name: str | None) -> str:
    """Return the path that the verb `path` prints: the directory of a run or of an array, or with `name` the run's
    "outputs", "logs" or "code", or one of its named outputs. Raise NotFound if the name is unknown."""
    if name is None:
        return runs.directory
    run = require_run(runs)
    known = {"outputs": run.paths.outputs, "logs": run.paths.logs_dir, "code": run.paths.code}
    if name in known:
        return known[name]
    outputs = run.outputs
    if name not in outputs:
        raise NotFound(f"{name!r:.60} is not a path of {run.id}", None, f"one of {', '.join([*known, *outputs])}")
    return outputs[name].path


def run_fetch(options: argparse.Namespace) -> int:
    from worldsize.store.output_copies import copy_output, make_result_directory

    runs, pattern = _runs_and_word(options.run, options.pattern)
    found = [each for run in runs.runs() for each in _wanted(run, _written(runs, run, options), pattern)]
    if not found:
        words = "has written no files (yet)" if pattern is None else f"has no file {pattern!r:.60}"
        raise NotFound(f"{runs.noun} {runs.id} {words}", None, f"worldsize outputs {runs.id}")
    if not options.no_fetch:
        for run in runs.runs():
            _fetch(run, [place_of(run.paths, each.file) for each in found if each.run is run])
    directory = os.path.abspath(options.to) if options.to is not None else make_result_directory(runs.id)
    total = sum(each.file.bytes for each in found)
    places, done = [], 0
    with _progress() as line:
        for each in found:
            places.append(copy_output(each.run.paths, each.file, os.path.join(directory, each.below)))
            line.transfer("fetch", done := done + each.file.bytes, total)
    if options.output == "json":
        show_json([{**each.values(), "to": place} for each, place in zip(found, places, strict=True)])
    else:
        show(*places)
        report(f"{count_text(len(found), 'file')}, {bytes_text(total)}, of {runs.noun} {runs.id}")
    return 0


def _wanted(run: Run, written: list[_Written], pattern: str | None) -> list[_Written]:
    """Return those of the run's `written` files that match the pattern of `fetch`, or that belong to the run's output
    with this name; all files if the pattern is None."""
    from worldsize.store.output_copies import is_wanted

    output = run.outputs.get(pattern) if pattern is not None else None
    start = f"{output.path}{os.sep}" if output is not None else None

    def is_of_output(file: OutputFile) -> bool:
        return start is not None and place_of(run.paths, file).startswith(start)

    return [each for each in written if is_wanted(each.file.path, pattern) or is_of_output(each.file)]


def _runs_and_word(name: str | None, word: str | None) -> tuple[Run | RunArray, str | None]:
    """Return the run or array that the command line names, and the word after it (a place or a pattern). A single word
    that names no run counts as that word, for the latest run."""
    if name is None or word is not None:
        return find_runs(name), word
    if name in _PLACES:
        return find_runs(None), name
    try:
        return find_runs(name), None
    except NotFound as error:
        try:
            return find_runs(None), name
        except NotFound:
            raise error from None


def _written(runs: Run | RunArray, run: Run, options: argparse.Namespace) -> list[_Written]:
    """Return the output files that a run has written so far: those on this machine, or, unless --no-fetch is given,
    those at the service that keeps them."""
    below = "" if runs.id == run.id else run.id
    if options.no_fetch or not run.offers(OUTPUTS):
        return [_Written(run, file, below) for file in output_files(run.paths)]
    kept = _service(run).list_outputs(_handle(run, "list"), run.paths, _output_places(run))
    files = (file_at(run.paths, place, size) for place, size in kept.items())
    return [_Written(run, file, below) for file in sorted(filter(None, files))]


def _fetch(run: Run, places: list[str]) -> None:
    """Fetch the run's output files whose paths are `places` from the service that keeps them into the run's directory.
    Do nothing if the run is not on such a service."""
    if not run.offers(OUTPUTS):
        return
    wanted = frozenset(places)
    with _progress() as line:
        _service(run).fetch_outputs(_handle(run, "fetch"), run.paths, _output_places(run), wanted.__contains__, line)


def _handle(run: Run, action: str) -> Mapping[str, Any]:
    """Return the handle (native id) of the run, by which its compute finds its outputs. Raise UsageError if the run
    belongs to another user."""
    run.refuse_foreign(f"{action} the outputs of")
    handle = run.native()
    assert handle is not None
    return handle


def _service(run: Run) -> HasOutputs:
    return cast("HasOutputs", run.compute)


def _output_places(run: Run) -> dict[str, str]:
    return {name: output.path for name, output in run.outputs.items()}


@contextmanager
def _progress() -> Iterator[ProgressLine | NoticePrinter]:
    line = ProgressLine() if sys.stderr.isatty() else NoticePrinter()
    try:
        yield line
    finally:
        line.clear()
