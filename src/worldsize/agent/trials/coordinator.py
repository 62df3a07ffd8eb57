"""The head's side of a search: which trial runs on which nodes, when it has told enough, and what is left of it all:
the table of trials and the best configuration, up to date after each trial."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping

from worldsize.agent.trials.search import (
    FAILED,
    GIVEN_UP,
    MEASURED,
    Result,
    Search,
    results_csv,
    settings_text,
    with_settings,
)
from worldsize.agent.trials.trial import trial_paths
from worldsize.common.atomic_files import write_text
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Tuple

    Order = Tuple[int, Dict[str, Any]]
    """To which node, and what."""

TABLE = "trials.csv"


class _RunningTrial:
    """A trial that runs on `nodes`: what it has told so far, and which nodes are still at it."""

    def __init__(self, number: int, settings: Mapping[str, Any], nodes: range) -> None:
        self.number = number
        self.settings = settings
        self.nodes = nodes
        self.left = set(nodes)
        self.values: List[float] = []
        self.began = time.monotonic()
        self.ending = ""
        self.code = 0
        self.why = ""


class SearchCoordinator:
    """Orders come out of `take_orders`, messages of nodes go into `handle_message`. `is_over`: nothing runs, and
    nothing is to be tried any more."""

    def __init__(self, plan: Plan, paths: RunPaths, base: Mapping[str, Any]) -> None:
        self._options: Mapping[str, Any] = plan.options["search"]
        self._plan = plan
        self._paths = paths
        self._base = base
        self._search = Search(self._options["trials"], self._options["goal"], self._options["patience"])
        each = self._options["nodes"]
        self._groups = [range(first, first + each) for first in range(0, len(plan.nodes), each)]
        self._running: Dict[int, _RunningTrial] = {}
        self._orders: List[Order] = []
        self._stopped = False

    @property
    def is_over(self) -> bool:
        return not self._running

    def begin(self) -> None:
        ranks = len(self._plan.nodes[0].ranks)
        each, groups = self._options["nodes"], len(self._groups)
        at_once = f"{groups} at once" if groups > 1 else "one after another"
        _print_line(f"{self._search.count} trials of {each} × {ranks} ranks, {at_once}")
        for group in self._groups:
            self._start_next(group)

    def stop(self) -> None:
        """No more trials."""
        self._stopped = True
        for running in self._running.values():
            self._stop_trial(running, GIVEN_UP)

    def take_orders(self) -> Iterator[Order]:
        while self._orders:
            yield self._orders.pop(0)

    def _start_next(self, nodes: range) -> None:
        """Let these nodes try what is to be tried next, if anything is."""
        before = len(self._search.results)
        taken = None if self._stopped else self._search.take_trial()
        for result in self._search.results[before:]:
            self._print_result(result)
        if taken is None:
            return
        number, settings = taken
        self._running[number] = _RunningTrial(number, settings, nodes)
        self._orders.append((nodes[0], {"kind": "lead", "number": number}))

    def handle_message(self, node_rank: int, message: Mapping[str, Any]) -> None:
        running = self._running.get(message.get("number", 0))
        if running is None:
            return
        if message["kind"] == "led":
            join = {"kind": "join", "number": running.number, "rendezvous": message["rendezvous"]}
            self._orders.extend((node, join) for node in running.nodes[1:])
        elif message["kind"] == "said":
            running.values += message["values"]
            self._stop_if_decided(running)
        elif message["kind"] == "ended":
            self._handle_node_end(running, node_rank, message)

    def _stop_if_decided(self, running: _RunningTrial) -> None:
        if len(running.values) >= self._options["reports"]:
            self._stop_trial(running, MEASURED)
        elif self._search.is_hopeless(running.values[-1]):
            self._stop_trial(running, GIVEN_UP)

    def _stop_trial(self, running: _RunningTrial, state: str) -> None:
        if not running.ending:
            running.ending = state
            self._orders.append((running.nodes[0], {"kind": "stop", "number": running.number}))

    def _handle_node_end(self, running: _RunningTrial, node_rank: int, message: Mapping[str, Any]) -> None:
        running.left.discard(node_rank)
        if node_rank == running.nodes[0]:
            running.code, running.why = message["code"], message["why"]
        if running.left:
            return
        del self._running[running.number]
        result = self._result(running)
        self._search.record(result)
        self._print_result(result)
        self._save()
        self._start_next(running.nodes)

    def _result(self, running: _RunningTrial) -> Result:
        seconds = time.monotonic() - running.began
        value = running.values[-1] if running.values else None
        state, why = running.ending, ""
        if not state:
            timed_out = running.why.startswith("TIME_LIMIT")
            state = MEASURED if value is not None and (running.code == 0 or timed_out) else FAILED
            if state == FAILED:
                value, why = None, running.why or f"it never told its {self._options['metric']}"
        return Result(running.number, running.settings, state, value, seconds, why)

    def _print_result(self, result: Result) -> None:
        value = "" if result.value is None else f"  {self._options['metric']}={result.value:.6g}"
        state = "" if result.state == MEASURED else "  " + result.state
        why = ": " + result.why.splitlines()[0][:200] if result.why else ""
        settings = settings_text(result.settings)
        _print_line(f"trial {result.number}/{self._search.count}  {settings}{value}{state}{why}")

    def _save(self) -> None:
        """The table so far, and the best configuration: whenever the search ends, they are there."""
        write_text(os.path.join(self._paths.outputs, TABLE), results_csv(self._search.results, self._options["metric"]))
        best = self._search.best
        if best is not None:
            name = os.path.basename(self._options["config"])
            text = json.dumps(with_settings(self._base, best.settings), indent=2) + "\n"
            write_text(os.path.join(self._paths.outputs, name), text)

    def finish(self) -> int:
        """Say what is best; what the run exits with."""
        self._save()
        best = self._search.best
        if best is None:
            first = next((result for result in self._search.results if result.why), None)
            why = ": " + first.why.splitlines()[0] if first else ""
            number = first.number if first else 1
            log = os.path.relpath(trial_paths(self._paths, number).logs_dir, self._paths.root)
            _print_line(f"no trial could be measured{why} (its logs: {log})")
            return 1
        name = os.path.basename(self._options["config"])
        _print_line(
            "best: {}  {}={:.6g}".format(settings_text(best.settings), self._options["metric"], best.value or 0.0)
        )
        _print_line(f"outputs/{name} holds it, outputs/{TABLE} all trials")
        return 0


def _print_line(text: str) -> None:
    print("autotune: " + text, flush=True)
