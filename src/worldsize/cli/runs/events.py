"""The verb events: the events of a run, in order."""

from __future__ import annotations

import argparse

from worldsize.cli.clock import clock_text
from worldsize.cli.console import add_output_option, add_run_argument, find_run
from worldsize.cli.output import show, show_json
from worldsize.cli.table import table
from worldsize.errors import NotFound
from worldsize.service.runs.run_events import RunEvent, read_run_events

_EXAMPLES = """examples:
  worldsize events                      of the latest run that was started here
  worldsize events 417k -o json         for programs: [{time, source, event, text, fields}]"""


def configure(name: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES
    add_run_argument(parser)
    add_output_option(parser)
    parser.set_defaults(act=_show_events)


def _show_events(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    run.look()
    try:
        plan = run.plan
    except NotFound:  # the run is being prepared
        plan = None
    events = read_run_events(run.paths, plan)
    if options.output == "json":
        show_json(
            [
                {"time": each.time, "source": each.source, "event": each.kind, "text": each.text, "fields": each.fields}
                for each in events
            ]
        )
    else:
        show(*table([_row(each, events[0].time) for each in events], ("TIME", "+S", "WHO", "WHAT"), whole=("WHAT",)))
    return 0


def _row(event: RunEvent, start: float) -> tuple[str, str, str, str]:
    return clock_text(event.time), f"{event.time - start:.3f}", event.source, event.text
