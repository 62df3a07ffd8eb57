"""One node's side of a search: what the head orders, and what is to be told of this node's trial."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.agent.control.message_proof import derive_token
from worldsize.agent.control.rendezvous import Rendezvous
from worldsize.agent.posix import processes
from worldsize.agent.posix.signals import STOP, STOP_NOW, SignalPipe
from worldsize.agent.trials.search import metric_pattern, metric_values, with_settings
from worldsize.agent.trials.trial import TrialAgent, trial_paths, trial_plan, write_trial_directory
from worldsize.common.atomic_files import read_json
from worldsize.errors import StorageError
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.trust.directories import path_within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List


class SearchNode:
    """This node's trial, if it has one: orders come in, and what is to be told of it goes out. The nodes of a trial
    meet by a token that each derives from the run's `token`."""

    def __init__(
        self, plan: Plan, paths: RunPaths, node_rank: int, addresses: Sequence[str], signals: SignalPipe, token: str
    ) -> None:
        self.plan = plan
        self.paths = paths
        self.node_rank = node_rank
        self.address = addresses[node_rank]
        self.addresses = addresses
        self.signals = signals
        self._token = token
        self.search: Mapping[str, Any] = plan.options["search"]
        self._pattern = metric_pattern(self.search["metric"])
        self._trial: TrialAgent | None = None
        self._number = 0
        self._leads = False

    @property
    def is_busy(self) -> bool:
        return self._trial is not None

    def is_stop_requested(self) -> bool:
        return bool(self.signals.take() & (STOP | {STOP_NOW}))

    def handle_order(self, message: Mapping[str, Any]) -> List[Dict[str, Any]]:
        """Do what the head says; what to tell it at once. Raises OSError."""
        kind, number = message["kind"], message.get("number", 0)
        if kind == "lead":
            return [{"kind": "led", "number": number, "rendezvous": self._lead(number)}]
        if kind == "join":
            self._make_trial(number)
            assert self._trial is not None
            rendezvous = Rendezvous(**{**message["rendezvous"], "token": self._token_of(number)})
            self._trial.start(rendezvous, None, self.signals)
        elif kind == "stop" and number == self._number:
            self.stop()
        return []

    def _make_trial(self, number: int) -> RunPaths:
        trial = trial_paths(self.paths, number)
        place = self.node_rank % self.search["nodes"]
        self._number, self._leads = number, place == 0
        self._trial = TrialAgent(trial_plan(self.plan, number), trial, place, os.environ)
        return trial

    def _lead(self, number: int) -> Dict[str, Any]:
        """The first node of a trial lays it out, and says where the others find it."""
        trial = self._make_trial(number)
        assert self._trial is not None
        name = self.search["config"]
        config = with_settings(base_config(self.paths, name), self.search["trials"][number - 1])
        if self.search["metric"] == "throughput":
            config.update(steps_per_print=self.search["steps"], log_level="info")
        write_trial_directory(self.paths, trial, name, config)
        head = self._trial.open(self.address, self._token_of(number))
        self._trial.start(head.rendezvous, head, self.signals)
        return head.rendezvous._replace(token="")._asdict()

    def _token_of(self, number: int) -> str:
        return derive_token(self._token, f"trial {number}")

    def take_messages(self) -> List[Dict[str, Any]]:
        """What is to be told of this node's trial since the last call."""
        if self._trial is None:
            return []
        ended = [code for pid, code in processes.reap() if pid == self._trial.pid]
        found: List[Dict[str, Any]] = []
        values = metric_values(self._pattern, self._trial.take_lines()) if self._leads else []
        if values:
            found.append({"kind": "said", "number": self._number, "values": values})
        if ended:
            why = self._trial.failure_text()
            self._trial = None
            found.append({"kind": "ended", "number": self._number, "code": ended[0], "why": why})
        return found

    def stop(self) -> None:
        if self._trial is not None:
            self._trial.stop()


def base_config(paths: RunPaths, name: str) -> Mapping[str, Any]:
    """The configuration that trials vary. It is read from the snapshot alone: where a run is shared, its group can read
    each trial's configuration, which holds all of this one.

    Raises OSError where it is not there, lies elsewhere, or is no JSON object.
    """
    try:
        value = read_json(path_within(paths.root, os.path.join(paths.code, name)))
    except ValueError as error:
        raise OSError(f"{name} is no JSON: {error}") from None
    except StorageError as error:
        raise OSError(f"{name} is not in the snapshot of the code: {error.what}") from None
    if not isinstance(value, dict):
        raise OSError(f"there is no {name} in the code (autotune.config says which file to vary)")
    return value
