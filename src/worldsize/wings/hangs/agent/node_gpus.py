"""Readings of the GPUs that a node's ranks compute on, by the process that the wing `metrics` has for it: a driver that
hangs, as where a GPU has fallen off the bus, keeps that process from answering, and nobody else from anything.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.agent.launchers.rank_process import Process
from worldsize.agent.machine.node_resources import has_kernels_pids
from worldsize.agent.outcome.node_record import note
from worldsize.agent.posix import processes
from worldsize.agent.supervision.rank_processes import RankProcesses
from worldsize.common.named_tuple import Any
from worldsize.registry import find_module
from worldsize.wings.hangs.judgement.gpu_signs import GpuReading, is_own

_HELPER, _DEVICES = "wings.metrics.agent.gpus.helper", "wings.metrics.agent.gpus.devices"
_PASSED = ("LD_LIBRARY_PATH", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES")
"""Of a rank's variables, those that decide which library, and which GPUs, it finds."""


class NodeGpus:
    """The GPUs of one node's ranks. Nothing of it waits, or raises.

    Those count that the ranks may use, are not divided, and that no other process computes on, as far as the driver
    tells. Where it does not, as in containers that number processes themselves, or to ordinary users of AMD's, a GPU
    that the ranks may use counts as their own: who gives GPUs to containers and jobs gives each to one.
    """

    def __init__(self, ranks: RankProcesses) -> None:
        self._ranks = ranks
        self._helper: Any = None
        self._was_started = False

    def read(self) -> tuple[GpuReading, ...]:
        """Return the reading that the last call has asked for, where it has come: so it is a call old. None before the
        process has said which GPUs there are. Of a GPU that others compute on as well it tells nothing."""
        if not self._was_started and self._ranks:
            self._was_started = True
            self._start()
        if self._helper is None or not self._helper.find(0.0):
            return ()
        power = {each.gpu: each.power for each in self._helper.poll()}
        traffic = {each.gpu: each for each in self._helper.traffic if each.gpu in power}
        if not traffic:
            return ()
        own = set(processes.trees(self._ranks.running())) if has_kernels_pids() else None
        found = []
        for gpu, watts in power.items():
            each, pids = traffic.get(gpu), self._pids_on(gpu)
            if each is not None and (own is None or not each.listed or is_own(pids, own)):
                found.append(GpuReading(gpu, each.traffic, watts))
            elif each is None or (own is not None and own.intersection(pids)):
                found.append(GpuReading(gpu, None, None))
        return tuple(found)

    def close(self) -> None:
        """End the process, without waiting."""
        if self._helper is not None:
            self._helper.end(self._helper.pid in self._ranks.spared)
            self._helper = None

    def _pids_on(self, gpu: int) -> set[int]:
        return {pid for each, pid in self._helper.computing if each == gpu}

    def _start(self) -> None:
        helper, devices = find_module(_HELPER), find_module(_DEVICES)
        started = list(self._ranks.running().values())
        if helper is None or devices is None or not devices.has_gpus(started[0].environment):
            return
        try:
            self._helper = helper.GpuHelper(gpu_environment(started, devices.VISIBLE))
            self._ranks.spared.add(self._helper.pid)
        except OSError as error:
            note(f"GPUs are not watched for signs of life: {error}")


def gpu_environment(started: Sequence[Process], variable: str) -> Mapping[str, str]:
    """Return the agent's environment, but those GPUs are visible in it that are so, by this variable, to any of these
    processes."""
    environments = [each.environment for each in started]
    found = {name: value for name, value in os.environ.items() if name not in (variable, *_PASSED)}
    found.update((name, value) for name, value in environments[0].items() if name in _PASSED)
    if all(variable in each for each in environments):
        words = [word.strip() for each in environments for word in each[variable].split(",")]
        found[variable] = ",".join(dict.fromkeys(filter(None, words)))
    return found
