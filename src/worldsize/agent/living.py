"""The processes of one node's ranks: started, told to end, reaped, and ended with all that they leave behind."""

from __future__ import annotations

import signal
import time
from typing import NamedTuple

from worldsize.agent import processes
from worldsize.agent.ranks import Process
from worldsize.state.records import RankExit


class Ended(NamedTuple):
    """One process that has ended by now, with `code`, at `time` (Unix seconds)."""

    process: Process
    code: int
    time: float


class Living:
    """`exits` holds one entry for each rank that has ended, or could not be started."""

    def __init__(self) -> None:
        self.exits: list[RankExit] = []
        self._living: dict[int, Process] = {}
        self._started: dict[int, float] = {}
        self._told: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._living)

    def pids(self) -> dict[int, int]:
        """The process of each living rank; under torchrun, the node's first rank stands for all."""
        return {process.ranks[0]: pid for pid, process in self._living.items()}

    def start(self, process: Process) -> None:
        """Raises OSError where it cannot be started: FileNotFoundError for 127, anything else for 126."""
        now = time.time()
        try:
            program = processes.find_program(process.argv[0], process.environment)
            with processes.bound_to(process.cpus):
                pid = processes.spawn(program, process.argv, process.environment, process.log)
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            self.exits.extend(RankExit(rank, code, now, now) for rank in process.ranks)
            raise
        self._living[pid] = process
        self._started[pid] = now

    def terminate(self) -> None:
        """TERM to each rank's whole group, which is also woken if it was stopped."""
        for pid in self._living:
            processes.signal_group(pid, signal.SIGTERM)

    def kill(self) -> None:
        """KILL to everything below us, whatever group or session it has moved to."""
        for pid in processes.descendants():
            processes.signal_process(pid, signal.SIGKILL)

    def reap(self, stopped: bool) -> list[Ended]:
        """The ranks that have ended since the last call; `stopped`: we had told them to."""
        now = time.time()
        ended = []
        for pid, code in processes.reap():
            self._told.discard(pid)
            process = self._living.pop(pid, None)
            if process is None:
                continue
            started = self._started.pop(pid)
            self.exits.extend(RankExit(rank, code, started, now, stopped) for rank in process.ranks)
            if code:
                processes.signal_group(pid, signal.SIGTERM)
            ended.append(Ended(process, code, now))
        return ended

    def end_leftovers(self, at_once: bool) -> bool:
        """Once no rank lives: end what the ranks left, TERM first and KILL if `at_once`. True: nothing is left."""
        left = processes.children()
        for pid in left:
            if at_once:
                processes.signal_process(pid, signal.SIGKILL)
            elif pid not in self._told:
                self._told.add(pid)
                processes.signal_process(pid, signal.SIGTERM)
                processes.signal_process(pid, signal.SIGCONT)
        return not left
