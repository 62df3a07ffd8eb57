"""outputs: where a run's outputs are; those that a service keeps are fetched first."""

from __future__ import annotations

import argparse
import os
import sys

from worldsize.cli.console import add_output_option, add_run_argument, find_run, table
from worldsize.cli.output import report, show, show_json
from worldsize.cli.progress_line import NoticePrinter, ProgressLine
from worldsize.common.named_tuple import cast
from worldsize.compute.capabilities import OUTPUTS
from worldsize.service.runs.run import Run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.compute.capabilities import HasOutputs

_EXAMPLES = """examples:
  worldsize outputs                       of the latest run: the directory that ./outputs was, and each named output
  worldsize outputs 417k -o json          {"path", "outputs": {"model": "/…"}}
  worldsize outputs 417k --no-fetch       of a run on Azure ML: only what has been fetched already

What a run on a service has left there so far is fetched into the run's own directory."""


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    parser.add_argument("--no-fetch", action="store_true", help="do not ask the service")
    add_output_option(parser)
    parser.set_defaults(act=show_outputs)


def show_outputs(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    if not options.no_fetch and run.offers(OUTPUTS):
        fetch(run)
    found = run.outputs
    if options.output == "json":
        show_json({"path": found.path, "outputs": {name: output.path for name, output in found.items()}})
        return 0
    rows = [["./outputs", found.path], *([name, output.path] for name, output in found.items())]
    show(*table(rows, ["OUTPUT", "PATH"]))
    missing = [name for name, output in found.items() if not os.path.lexists(output.path)]
    if missing:
        report(f"not there (yet): {', '.join(missing)}")
    return 0


def fetch(run: Run) -> None:
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
