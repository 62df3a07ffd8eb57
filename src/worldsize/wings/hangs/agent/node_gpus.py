"""Readings of the GPUs that a node's ranks compute on, made by the process of the wing `metrics`. A driver that hangs,
for example when a GPU has fallen off the bus, blocks only that process.

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
"""Variables of a rank that decide which library, and which GPUs, it finds."""


class NodeGpus:
    """The GPUs of one node's ranks. No method waits or raises.

    The GPUs that count are those that the ranks may use, that are not divided, and that no other process computes on,
    according to the driver. The driver may not report processes, as in containers with process numbers of their own, or
    to ordinary users of AMD's. A GPU that the ranks may use counts as their own then, since a system that assigns GPUs
    to containers and jobs assigns each to one.
    """

    def __init__(self, ranks: RankProcesses) -> None:
        self._ranks = ranks
        self._helper: Any = None
        self._was_started = False

    def read(self) -> tuple[GpuReading, ...]:
        """Return the readings of the power and traffic of the node's GPUs that the last call requested, if they have
        arrived: so they are one call old. Empty before the helper process has reported which GPUs there are. The
        reading of a GPU that other processes compute on as well has no values. A GPU that only other processes compute
        on is left out."""
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
        """Stop the helper process that reads the GPUs, without waiting."""
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
    """Return the environment variables for the process that reads the GPUs: the agent's, with `variable`
    (CUDA_VISIBLE_DEVICES) set to all GPUs that are visible to any of the rank processes `started`, if each of these has
    the variable."""
    environments = [each.environment for each in started]
    found = {name: value for name, value in os.environ.items() if name not in (variable, *_PASSED)}
    found.update((name, value) for name, value in environments[0].items() if name in _PASSED)
    if all(variable in each for each in environments):
        words = [word.strip() for each in environments for word in each[variable].split(",")]
        found[variable] = ",".join(dict.fromkeys(filter(None, words)))
    return found
