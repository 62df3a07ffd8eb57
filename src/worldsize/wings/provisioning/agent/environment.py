"""The run's environment on this node's disk: it is found there, or unpacked from the file in the shared directory.

BASE/worldsize-UID/envs/DIGEST        unpacked, once for all agents of this machine; kept for later runs
BASE/worldsize-UID/envs/DIGEST.lock   held, shared, by each agent that uses it
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping

from worldsize.plan.conda_variables import conda_variables
from worldsize.plan.node_disk import PackedEnvironment
from worldsize.wings.provisioning.agent.copy import PreparationStopped, exclusive_lock
from worldsize.wings.provisioning.agent.directory import HeldDirectory, ensure_own_directory, remove_stale_directories
from worldsize.wings.provisioning.agent.pack_format import is_sha256
from worldsize.wings.provisioning.agent.unpack import DamagedPack, unpack_environment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

_NAME = 12
_UNUSED_DAYS = 7


class EnvironmentUnpacker:
    """An unpacker of a run's packed Python environment to the node's disk. After `run` has returned, `path` is the path
    of the environment. `kept` contains the files in it that still contain its old path; it is empty if the environment
    was already unpacked."""

    def __init__(self, archive: PackedEnvironment, base: str, stopped: Callable[[], bool]) -> None:
        self.path = ""
        self.kept: tuple[str, ...] = ()
        self._archive = archive
        self._envs = os.path.join(ensure_own_directory(base), "envs")
        self._stopped = stopped
        self._held: HeldDirectory | None = None

    def run(self) -> None:
        """Unpack the packed environment to the node's disk, unless it is there already, and hold it for this process,
        so that no process removes it. Raise DamagedPack if its checksum is invalid or wrong, OSError if it cannot be
        unpacked, and PreparationStopped if it is no longer wanted."""
        if not is_sha256(self._archive.digest):
            raise DamagedPack(f"the checksum of the packed environment is invalid: {self._archive.digest}")
        place = os.path.join(self._envs, self._archive.digest[:_NAME])
        self._held = HeldDirectory(place, keeps=True)
        remove_stale_directories(self._envs, _UNUSED_DAYS * 86400.0)
        with exclusive_lock(place + ".making", self._stopped):
            if not os.path.isdir(place):
                self._unpack(place)
        self.path = place

    def close(self) -> None:
        """Release this process's lock on the unpacked environment, which is kept on the node's disk for later runs."""
        if self._held is not None:
            self._held.release()

    def _unpack(self, place: str) -> None:
        from shutil import rmtree

        part = place + ".part"
        rmtree(part, ignore_errors=True)
        try:
            with open(self._archive.file, "rb") as file:
                kept = unpack_environment(_stoppable_reader(file, self._stopped), self._archive.digest, part, place)
            os.rename(part, place)
        except BaseException:
            rmtree(part, ignore_errors=True)
            raise
        self.kept = kept


def _stoppable_reader(file: BinaryIO, stopped: Callable[[], bool]) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        if stopped():
            raise PreparationStopped
        return file.read(count)

    return read


def environ_after_activation(path: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` as changed by the conda environment at `path`: with its variables, and with the effects of its
    activation scripts. PATH stays unchanged."""
    own = {**environ, **conda_variables(path)}
    scripts = os.path.join(path, "etc", "conda", "activate.d")
    if not os.path.isdir(scripts):
        return own
    script = 'for each in "$1"/*.sh; do . "$each"; done >/dev/null 2>&1; exec env -0'
    before = {**own, "CONDA_PREFIX": path, "PATH": f"{path}/bin:{environ.get('PATH', os.defpath)}"}
    done = subprocess.run(["bash", "-c", script, "bash", scripts], env=before, stdout=subprocess.PIPE)
    entries = [entry.partition(b"=") for entry in done.stdout.split(b"\0") if b"=" in entry]
    after = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    return {**after, "PATH": environ.get("PATH", os.defpath)} if after else own
