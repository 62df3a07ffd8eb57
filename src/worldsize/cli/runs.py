"""list, status, wait, cancel: runs that exist."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import Any

from worldsize.cli.shared import (
    add_output,
    add_run,
    completed_by,
    config_here,
    count,
    duration,
    find_run,
    print_json,
    say,
    seconds,
    size,
    state_text,
    table,
)
from worldsize.errors import NotFound, UsageError
from worldsize.plan.files import display
from worldsize.service.run import Run
from worldsize.state.records import RunState, Status

NEWEST = 20
TIMED_OUT = 124

_EXAMPLES = {
    "list": """examples:
  worldsize list                              the newest 20
  worldsize list --all --state FAILED -o json""",
    "status": """examples:
  worldsize status                            the latest run
  worldsize status 417k -o json""",
    "wait": """examples:
  worldsize wait && echo trained              the exit code is the run's
  worldsize wait 417k --timeout 3600          124 when the time is over; the run goes on""",
    "cancel": """examples:
  worldsize cancel                            the latest run: TERM, its grace, KILL
  worldsize cancel 417k --now                 KILL at once""",
}


def configure(verb: str, parser: argparse.ArgumentParser) -> None:
    parser.epilog = _EXAMPLES[verb]
    if verb == "list":
        parser.add_argument("-a", "--all", action="store_true", help="every run, not the newest %d" % NEWEST)
        parser.add_argument("-n", metavar="N", type=count, default=NEWEST, dest="count", help="the newest N")
        state = parser.add_argument("--state", metavar="STATE", help="only runs in this state")
        completed_by(state, complete_states)
        add_output(parser)
    else:
        add_run(parser)
        if verb == "wait":
            parser.add_argument(
                "--timeout", metavar="SECONDS", type=seconds, help="give up after so long, with code 124"
            )
        if verb == "cancel":
            parser.add_argument("--now", action="store_true", help="without grace")
        else:
            add_output(parser)
    parser.set_defaults(act={"list": list_runs, "status": status, "wait": wait, "cancel": cancel}[verb])


def complete_states(**_: Any) -> list[str]:
    return [name for name in vars(RunState) if name.isupper() and name != "FINAL"]


def known_state(text: str | None) -> str | None:
    known = complete_states()
    if text is not None and text.upper() not in known:
        raise UsageError("there is no state %s" % text, "--state", "one of %s" % ", ".join(known))
    return text.upper() if text else None


def list_runs(options: argparse.Namespace) -> int:
    from worldsize.store.find import list_ids
    from worldsize.store.summaries import summaries

    wanted = known_state(options.state)
    home = config_here().home
    everything = options.all or wanted is not None
    ids = list_ids(home, None if everything else options.count)
    rows = [row for row in summaries(home, ids, live_summary) if wanted in (None, row.state)]
    if not options.all:
        rows = rows[: options.count]
    if options.output == "json":
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
    elif rows:
        headers = ["RUN", "NAME", "STATE", "REASON", "COMPUTE", "SIZE", "AGE", "TOOK"]
        sys.stdout.write(_coloured(table([_row(row) for row in rows], headers), rows) + "\n")
    elif wanted:
        say("no run is %s" % wanted)
    elif options.count:
        say("no runs yet: worldsize run -w 1x2 -- python train.py")
    return 0


def _coloured(text: str, rows: list[Any]) -> str:
    if not sys.stdout.isatty():
        return text
    head, *lines = text.split("\n")
    painted = [
        line.replace(row.state, state_text(row.state, sys.stdout), 1) for line, row in zip(lines, rows, strict=True)
    ]
    return "\n".join([head, *painted])


def live_summary(paths: Any) -> Any:
    """The row of a run that has no result yet."""
    from worldsize.store.summaries import Summary

    run = Run(paths, os.environ)
    now = run.look()
    if run.has_plan():
        from worldsize.state.result import summary

        return Summary(**summary(run.plan, now))
    made = os.stat(paths.root).st_mtime if os.path.isdir(paths.root) else 0.0
    return Summary(run.id, "", now.state, now.reason, "", 0, 0, made, exit_code=now.exit_code)


def _row(row: Any) -> list[str]:
    now = time.time()
    took = duration((row.ended or now) - row.started) if row.started else ""
    size = "%dx%d" % (row.nodes, row.ranks // max(row.nodes, 1))
    age = duration(max(now - row.created, 0))
    return [row.id, display(row.name), row.state, row.reason or "", row.compute, size, age, took]


def status(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    now = run.look()
    if not os.path.isdir(run.directory):
        raise NotFound("its directory was deleted: %s" % run.directory, "run %s" % run.id)
    if options.output == "json":
        print_json(status_data(run, now))
        return 0
    sys.stdout.write("\n".join(_status_lines(run, now)) + "\n")
    return 0


def status_data(run: Run, now: Status) -> dict[str, Any]:
    """{id, name, state, reason, exit_code, …, threads, binding, message, directory, failure}"""
    from worldsize.cli.threads import threads_of
    from worldsize.service.screen import failure_data
    from worldsize.state.result import summary

    data: dict[str, Any] = {"id": run.id, "state": now.state, "reason": now.reason, "exit_code": now.exit_code}
    if run.has_plan():
        data = summary(run.plan, now)
        data["threads"] = threads_of(run)
        data["binding"] = [list(cpus) for cpus in run.plan.binding]
        data["failure"] = failure_data(run.paths, run.plan, now)
    data["message"] = now.message
    data["directory"] = run.directory
    return data


def _status_lines(run: Run, now: Status) -> list[str]:
    from worldsize.cli.failure import failure_text
    from worldsize.cli.threads import threads_of, threads_text

    lines = ["%s  %s%s" % (run.id, state_text(now.state, sys.stdout), " (%s)" % now.reason if now.reason else "")]
    if run.has_plan():
        plan = run.plan
        lines.append("%s: %s on %s" % (display(plan.name), size(len(plan.nodes), plan.world_size), plan.compute))
        lines.append("%s; %s" % (threads_text(threads_of(run)), "CPUs bound" if plan.binding else "CPUs not bound"))
        lines.append("made %s ago%s" % (duration(time.time() - plan.created), _took(now)))
    lines.append(run.directory)
    text = failure_text(run, now)
    return [*lines, "", text] if text else lines


def _took(now: Status) -> str:
    if now.started is None:
        return ""
    return ", ran for %s" % duration((now.ended or time.time()) - now.started)


def wait(options: argparse.Namespace) -> int:
    run = find_run(options.run)
    now = run.follow(lambda: False, options.timeout)
    if options.output == "json":
        print_json(status_data(run, now))
    else:
        say("%s is %s" % (run.id, now.state))
    if not now.final:
        return TIMED_OUT
    return now.exit_code or 0


def cancel(options: argparse.Namespace) -> int:
    try:
        run = find_run(options.run)
    except NotFound:
        if _end_deleted(options.run):
            return 0
        raise
    before = run.look()
    if before.final:
        say("%s is %s already%s" % (run.id, before.state, _ended(run.end_remains())))
        return 0
    run.cancel(options.now)
    say("cancelling %s" % run.id)
    return 0


def _end_deleted(run_id: str | None) -> bool:
    """End what is left of a run of which nothing but its id is known any more; whether there was anything."""
    from worldsize.store.find import run_paths
    from worldsize.store.runs import is_run_id

    if run_id is None or not is_run_id(run_id):
        return False
    found = Run(run_paths(config_here().home, run_id), os.environ).end_remains()
    if found:
        say("the directory of %s was deleted%s" % (run_id, _ended(found)))
    return found > 0


def _ended(found: int) -> str:
    if found == 0:
        return ""
    return "; ended %s left of it" % ("1 process that was" if found == 1 else "%d processes that were" % found)
