"""The run's environment on this node's disk: found there, or unpacked from what the shared directory or a node has.

BASE/worldsize-UID/envs/DIGEST        unpacked, once for all agents of this machine; kept for later runs
BASE/worldsize-UID/envs/DIGEST.lock   held, shared, by each agent that uses it
"""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping

from worldsize.agent.copying import Stopped, alone
from worldsize.agent.local import Held, own_directory, sweep
from worldsize.agent.passing import Door, Growing, ancestors, ask_carried, receive
from worldsize.agent.unpack import Damaged, unpack
from worldsize.plan.files import read_json
from worldsize.plan.local import Archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

    from worldsize.agent.readiness import Neighbours

_NAME = 12
_CHUNK = 4 << 20
_UNUSED_DAYS = 7
_PATIENCE = 30.0
_CARRYING = 600.0


class Unpacking:
    """Once `run` has returned: `path` is the environment's, `kept` are files in it that still hold its old path, and
    `way` says how it came: "here", "read", "carried" or "passed"."""

    def __init__(
        self, archive: Archive, base: str, directory: str, neighbours: Neighbours, stopped: Callable[[], bool]
    ) -> None:
        self.path = ""
        self.kept: tuple[str, ...] = ()
        self.way = "here"
        self._archive = archive
        self._envs = os.path.join(own_directory(base), "envs")
        self._stopped = stopped
        self._held: Held | None = None
        self._source = _Source(archive, base, directory, neighbours, stopped)

    def run(self) -> None:
        """Raises OSError, Stopped."""
        place = os.path.join(self._envs, self._archive.digest[:_NAME])
        self._held = Held(place, keeps=True)
        sweep(self._envs, _UNUSED_DAYS * 86400.0)
        with alone(place + ".making", self._stopped):
            if not os.path.isdir(place):
                self._unpack(place)
        self.path = place

    def let_go(self) -> None:
        """All nodes have it: the packed file is needed no more. Harmless when repeated."""
        self._source.close()

    def close(self) -> None:
        """Others are served to their end; the environment stays."""
        self._source.close()
        if self._held is not None:
            self._held.release()

    def _unpack(self, place: str) -> None:
        from shutil import rmtree

        part = place + ".part"
        rmtree(part, ignore_errors=True)
        try:
            try:
                found = unpack(self._source.read(), self._archive.digest, part, place)
            except Damaged:
                if not self._archive.tree:
                    raise
                rmtree(part)
                with open(self._archive.file, "rb") as file:
                    found = unpack(_reading(file, self._stopped), self._archive.digest, part, place)
            os.rename(part, place)
        except BaseException:
            rmtree(part, ignore_errors=True)
            raise
        self.kept = found.kept
        self.way = self._source.way


class _Source:
    """Where this node's bytes come from, and whom it passes them on to."""

    def __init__(
        self, archive: Archive, base: str, directory: str, neighbours: Neighbours, stopped: Callable[[], bool]
    ) -> None:
        self._archive = archive
        self._near = neighbours
        self._growing_path = os.path.join(directory, "environment-%d.pack" % neighbours.node_rank)
        self._carried_path = os.path.join(base, "worldsize-%d-%s.pack" % (os.getuid(), neighbours.token[:16]))
        self._stopped = stopped
        self._lock = threading.Lock()
        self._begun = False
        self._decided = threading.Event()
        self._growing: Growing | None = None
        self._carried = ""
        self.way = "read"
        self._file: BinaryIO | None = None
        self._door: Door | None = None
        if archive.tree and neighbours.listener is not None:
            self._door = Door(neighbours.listener, neighbours.token, self._answer)

    def read(self) -> Callable[[int], bytes]:
        """The archive from its start."""
        if not self._archive.tree or not self._near.doors:
            return self._read_file(self._archive.file)
        self._begin()
        while not self._decided.wait(0.1):
            if self._stopped():
                raise Stopped
        return self._growing.reader() if self._growing else self._read_file(self._carried or self._archive.file)

    def close(self) -> None:
        if self._door is not None:
            self._door.close(_PATIENCE)
        for each in (self._growing, self._file):
            if each is not None:
                each.close()
        self._door = self._growing = self._file = None
        if self._archive.carrier:
            try:
                os.unlink(self._carried_path)
            except OSError:
                pass

    def _read_file(self, path: str) -> Callable[[int], bytes]:
        self._file = open(path, "rb")
        return _reading(self._file, self._stopped)

    def _answer(self, carried: bool) -> Any:
        """To another node. The head fetches it even where it has the environment itself."""
        if self._near.node_rank == 0:
            self._begin()
            self._decided.wait(_CARRYING)
        if carried:
            return self._carried
        return self._growing

    def _begin(self) -> None:
        with self._lock:
            if not self._begun:
                self._begun = True
                threading.Thread(target=self._get, daemon=True).start()

    def _get(self) -> None:
        try:
            if self._near.node_rank == 0:
                self._carry()
            elif self._archive.carrier:
                self._carried = ask_carried(self._near.doors[0], self._near.token)
            if self._carried and os.path.exists(self._carried):
                self.way = "carried"
                return
            self._growing = Growing(self._growing_path, self._archive.size, self._stopped)
        finally:
            self._decided.set()
        try:
            self._fill(self._growing)
        except OSError as error:
            self._growing.fail(error)
        except Stopped:
            pass

    def _carry(self) -> None:
        """The compute's own way to bring a file to all nodes, where there is one and it works."""
        if not self._archive.carrier:
            return
        argv = [*self._archive.carrier, self._archive.file, self._carried_path]
        try:
            with open(os.devnull, "r+b") as nothing:
                done = subprocess.run(argv, stdin=nothing, stdout=nothing, stderr=nothing, timeout=_CARRYING)
        except (OSError, subprocess.TimeoutExpired):
            return
        if done.returncode == 0:
            self._carried = self._carried_path

    def _fill(self, growing: Growing) -> None:
        """From those above; from the shared file where none of them can."""
        if self._near.node_rank:
            doors = [self._near.doors[each] for each in ancestors(self._near.node_rank)]
            self.way = "passed"
            try:
                return receive(growing, doors, self._near.token, self._stopped)
            except ConnectionError:
                self.way = "read"
        with open(self._archive.file, "rb") as file:
            file.seek(growing.have)
            while growing.have < growing.size:
                if self._stopped():
                    raise Stopped
                data = file.read(min(_CHUNK, growing.size - growing.have))
                if not data:
                    raise Damaged("the packed environment is shorter than it was: %s" % self._archive.file)
                growing.append(data)


def _reading(file: BinaryIO, stopped: Callable[[], bool]) -> Callable[[int], bytes]:
    def read(count: int) -> bytes:
        if stopped():
            raise Stopped
        return file.read(count)

    return read


def activated(path: str, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ` with what the conda environment brings: its variables, and what its activation scripts leave."""
    own = {**environ, **_variables(path)}
    scripts = os.path.join(path, "etc", "conda", "activate.d")
    if not os.path.isdir(scripts):
        return own
    script = 'for each in "$1"/*.sh; do . "$each"; done >/dev/null 2>&1; exec env -0'
    before = {**own, "CONDA_PREFIX": path, "PATH": "%s/bin:%s" % (path, environ.get("PATH", os.defpath))}
    done = subprocess.run(["bash", "-c", script, "bash", scripts], env=before, stdout=subprocess.PIPE)
    entries = [entry.partition(b"=") for entry in done.stdout.split(b"\0") if b"=" in entry]
    after = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    return {**after, "PATH": environ.get("PATH", os.defpath)} if after else own


def _variables(path: str) -> dict[str, str]:
    """Those of `conda env config vars`, and of packages."""
    directory = os.path.join(path, "etc", "conda", "env_vars.d")
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    found: dict[str, str] = {}
    for file in (*(os.path.join(directory, name) for name in names), os.path.join(path, "conda-meta", "state")):
        try:
            value = read_json(file)
        except (OSError, ValueError):
            continue
        if isinstance(value, dict):
            said = value if file.endswith(".json") else value.get("env_vars", {})
            found.update({name: text for name, text in said.items() if isinstance(text, str)})
    return found
