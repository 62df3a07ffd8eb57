"""The preparation of a node's own disk before its ranks start. A thread does the work, so that the agent still handles
its connections."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Mapping

from worldsize.agent.control.solo_peers import Peers
from worldsize.agent.launchers.rank_process import NodeLaunch
from worldsize.agent.outcome.node_record import DISK_FULL_ERRORS, NodeRecorder
from worldsize.plan.node_disk import LOCAL_DIR_VARIABLE, replace_directory, resolve_placeholders
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Failure, Reason
from worldsize.wings.provisioning.agent.copy import PreparationStopped, copy_once
from worldsize.wings.provisioning.agent.directory import HeldDirectory, base_directory, hold_run_directory
from worldsize.wings.provisioning.agent.pack_format import ENVIRONMENT_MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from worldsize.wings.provisioning.agent.environment import EnvironmentUnpacker

_PATIENCE = 5.0
"""Seconds to wait for the thread to end when its result is no longer needed: it may still be transferring a chunk."""


class Preparation:
    """The preparation of one node's disk, in a thread that starts at once. Its file descriptor becomes readable, for a
    selector, when the thread has ended. `ready` is then true, or `failure` contains the reason; neither is set if it
    was stopped."""

    def __init__(self, launch: NodeLaunch, peers: Peers) -> None:
        plan = launch.plan
        assert plan.local is not None
        self.failure: Failure | None = None
        self.ready = False
        self._launch, self._plan = launch, plan
        self._local = plan.local
        self._paths = launch.paths
        self._node_rank = launch.node.node_rank
        self._environ = launch.environ
        self._held: HeldDirectory | None = None
        self._unpacking: EnvironmentUnpacker | None = None
        self._what = "its directory for local copies"
        self._stopped = threading.Event()
        self._began = time.time()
        self._reading, self._writing = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def fileno(self) -> int:
        return self._reading

    def acknowledge(self) -> None:
        """Read the byte that the preparation's thread has written at its end, which made the file descriptor of
        `fileno()` readable."""
        os.read(self._reading, 1)

    def deadline(self) -> float | None:
        return None

    def tick(self, now: float) -> None:
        """Do nothing at the time `now`: the preparation of a node's disk has no deadline, since a file may be of any
        size."""

    def finish(self, recorder: NodeRecorder) -> NodeLaunch:
        """Return the node's launch with the plan and the environment variables for this node. Call this once the
        preparation is `ready`. Record the event "prepared" and the notices with `recorder`, and remount read-only the
        paths that ranks must not change."""
        self._thread.join()
        assert self._held is not None
        recorder.write_event("prepared", seconds=time.time() - self._began)
        for kind, text in self._collect_notices(self._paths):
            recorder.write_event("notice", id=kind, text=text)
        place = self._unpacking.path if self._unpacking is not None else None
        plan = resolve_placeholders(self._plan, self._held.path, place)
        return self._launch._replace(plan=plan, environ=self._activated_environment(place))

    def stop(self) -> tuple[int, ...]:
        """Request that the preparation's thread ends soon, without waiting. Return an empty tuple, since the
        preparation starts no process that could still run."""
        self._stopped.set()
        return ()

    def close(self) -> None:
        """Stop the preparation's thread and release the node's local files. Files that another agent of this machine
        still needs, or that a later run may use, stay."""
        self._stopped.set()
        self._thread.join(_PATIENCE)
        if self._unpacking is not None:
            self._unpacking.close()
        if self._held is not None:
            self._held.release()

    def _run(self) -> None:
        try:
            self._prepare()
            self.ready = True
        except PreparationStopped:
            pass
        except OSError as error:
            self.failure = self._failure_of(error)
        finally:
            os.write(self._writing, b".")

    def _prepare(self) -> None:
        base = base_directory(self._local.base, self._environ)
        self._held = hold_run_directory(base, self._plan.run_id, self._plan.attempt)
        if self._local.archive is not None:
            from worldsize.wings.provisioning.agent.environment import EnvironmentUnpacker

            self._what = "its environment"
            self._unpacking = EnvironmentUnpacker(self._local.archive, base, self._stopped.is_set)
            self._unpacking.run()
        for copy in self._local.copies:
            self._what = f"input {copy.name}"
            copy_once(copy.source, os.path.join(self._held.path, copy.target), self._stopped.is_set)

    def _collect_notices(self, paths: RunPaths) -> list[tuple[str, str]]:
        """Remount the plan's read-only paths, except those that contain the run directory `paths.root`. Return the
        notices about paths that could not be remounted, and about files of the environment that still name its old
        directory, as (kind, text) pairs."""
        found = []
        if self._local.read_only:
            from worldsize.wings.provisioning.agent.read_only import make_read_only

            found += [
                ("read-only", "not read-only: " + text) for text in make_read_only(self._local.read_only, paths.root)
            ]
        kept = self._unpacking.kept if self._unpacking else ()
        if kept:
            text = f"{len(kept)} files of the environment still name its old directory: {', '.join(kept[:5])}"
            found.append(("environment-place", text))
        return found

    def _activated_environment(self, place: str | None) -> Mapping[str, str]:
        """Return the ranks' environment variables for the environment that was unpacked at `place`. Variables that
        setup lines set to paths in the shared environment are changed to the same paths in the local one. With no
        unpacked environment, they are unchanged."""
        archive = self._local.archive
        if archive is None or place is None:
            return self._environ
        environ = {name: replace_directory(value, archive.prefix, place) for name, value in self._environ.items()}
        if archive.prefix != ENVIRONMENT_MARK:
            return environ
        from worldsize.wings.provisioning.agent.environment import environ_after_activation

        return environ_after_activation(place, environ)

    def _failure_of(self, error: OSError) -> Failure:
        full = error.errno in DISK_FULL_ERRORS
        where = f"{error.filename}: " if error.filename else ""
        what = f"node {self._node_rank} ({socket.gethostname()}): {self._what} could not be prepared: "
        what += f"{where}{error.strerror or error}"
        if full:
            what += f" (set {LOCAL_DIR_VARIABLE} on the nodes to a directory on a larger disk)"
        return Failure(Reason.STORAGE if full else Reason.ENVIRONMENT, what, self._node_rank, None, 1, time.time())
