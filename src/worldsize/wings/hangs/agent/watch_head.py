"""The head's part in the watch over a run that may hang: it receives the messages of all nodes, and has them judged.

The results are in the run's directory: the stacks of each look, `stacks/node-0000-0001.jsonl`, and `hang.json`.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Collection, Mapping

from worldsize.agent.outcome.node_record import NodeRecorder, note, write_or_note
from worldsize.agent.posix import processes
from worldsize.common.atomic_files import read_object, try_unlink, write_bytes
from worldsize.common.named_tuple import Any, TypeAlias
from worldsize.plan.plan import Plan
from worldsize.plan.run_paths import RunPaths
from worldsize.state.hang import stuck_text
from worldsize.state.notices import HANG
from worldsize.wings.hangs.agent.judge import PROGRAM
from worldsize.wings.hangs.agent.watch_node import start_program
from worldsize.wings.hangs.judgement.watch import NodeSigns, Step, Watch, signs_of

_MOST_LOOKS = 20
"""The number of looks at a run in one silence that are kept for the next judgement."""

JUDGE_SECONDS = 300.0
"""The maximum number of seconds for a judgement, which reads files of all ranks: a file server may not answer."""

Ask: TypeAlias = "Callable[[int, bool], None]"


class WatchedRun:
    """The run from the point of view of its head.

    ask     makes each node take sample number N of the stacks, with or without its recorders' dumps
    decide  ends the run with a message
    spared  the children of this process that are not ranks
    """

    def __init__(
        self,
        plan: Plan,
        paths: RunPaths,
        recorder: NodeRecorder,
        spared: set[int],
        ask: Ask,
        decide: Callable[[str], None],
        now: float,
    ) -> None:
        self._plan = plan
        self._paths = paths
        self._recorder = recorder
        self._spared = spared
        self._ask = ask
        self._decide = decide
        self._watch = Watch(plan.watchdog_timeout, now)
        self._signs: dict[int, NodeSigns] = {}
        self._judge = 0
        self._judge_until = 0.0
        self._silent_since = 0.0
        self._former: list[tuple[float, Any]] = []
        self._has_asked_ras = False
        self._kept: list[str] = []

    @property
    def is_judging(self) -> bool:
        return self._judge != 0

    def hear(self, node: int, message: Mapping[str, Any]) -> None:
        """Process the message that the watchdog's part on the node `node` has sent: its signs of life, or its stacks
        for a sample. A damaged message is ignored."""
        signs = signs_of(message.get("signs"))
        if signs is not None:
            self._signs[node] = signs
        number, text = message.get("sampled"), message.get("text")
        if number == self._watch.number and isinstance(text, str):
            path = self._paths.stacks_of_node(node, number)
            write_or_note(lambda: _keep(path, text), "the stacks of a silent run are not recorded")
            self._kept.append(path)
            self._watch.note_answer(node, number)

    def step(self, nodes: Collection[int], now: float) -> None:
        """Do the head's work in the watch over the run that is due: request a sample of the stacks, start the judge, or
        report its result. `nodes` are those that are still part of the run."""
        if self._judge:
            is_late = now >= self._judge_until
            if is_late:
                self.close()
            if is_late or self._judge not in self._spared:
                self._finish_judging(now)
            return
        step = self._watch.step(self._signs, nodes, now)
        if step is None:
            return
        if step.action == "sample":
            if not step.is_last:
                self._forget_samples()
            self._ask(step.number, step.is_last)
        elif step.action == "judge":
            self._start_judging(step, nodes, now)
        else:
            self._recorder.write_event("resumed")
            self._recorder.write_event("notice", id=HANG, text="the run continues: there are signs of life again")

    def close(self) -> None:
        """Kill the program that judges whether the run hangs, if it still runs, without waiting for it."""
        if self._judge in self._spared:
            processes.signal_process(self._judge, signal.SIGKILL)

    def _forget_samples(self) -> None:
        """Remove the files with the samples of the ranks' stacks, since the run works. A run that works in silence for
        days is sampled again and again."""
        for path in self._kept:
            try_unlink(path)
        self._kept.clear()

    def _start_judging(self, step: Step, nodes: Collection[int], now: float) -> None:
        left = [signs for node, signs in self._signs.items() if node in nodes and signs.ranks]
        silent = min((signs.silent for signs in left), default=0.0)
        self._silent_since = time.time() - silent
        self._former = [look for look in self._former if look[0] > self._silent_since]
        half = self._plan.watchdog_timeout / 2
        order = {
            "root": self._paths.root,
            "attempt": self._paths.attempt,
            "samples": step.numbers,
            "world_size": self._plan.world_size,
            "living": sorted({rank for signs in self._signs.values() for rank in signs.ranks}),
            "limit": self._plan.watchdog_timeout,
            "since": self._silent_since,
            "former": [summary for _, summary in self._former],
            "idle": sorted(rank for signs in left if signs.idle >= half for rank in signs.ranks),
            "asks_ras": not self._has_asked_ras,
        }
        try_unlink(self._paths.judged)
        try:
            self._judge = start_program(PROGRAM, json.dumps(order), os.devnull)
            self._spared.add(self._judge)
            self._judge_until = now + JUDGE_SECONDS
        except OSError as error:
            note(f"the watchdog cannot judge the silent run: {error}")
            self._watch.note_judgement(False, now)

    def _finish_judging(self, now: float) -> None:
        """Read the judgement on the silent run from hang.json, after the judge has ended. If the run hangs, record this
        as an event and a notice, and stop the run if the job asks for it."""
        self._judge = 0
        found = read_object(self._paths.judged)
        sentence = found.get("sentence")
        said = sentence if found.get("alive") is False and isinstance(sentence, str) else ""
        self._former = [*self._former, (time.time(), found.get("summary"))][-_MOST_LOOKS:]
        self._has_asked_ras = self._has_asked_ras or found.get("asked_ras") is True
        self._watch.note_judgement(bool(said), now)
        if not said:
            self._forget_samples()
            return
        self._kept.clear()
        silent = time.time() - self._silent_since
        text = stuck_text(silent, said)
        self._recorder.write_event("stuck", sentence=said, standing=found.get("standing"), seconds=round(silent))
        self._recorder.write_event("notice", id=HANG, text=text)
        if self._plan.watchdog_action == "stop":
            self._decide(text)


def _keep(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    write_bytes(path, text.encode())
