"""The build of an environment: once, in its final place, which is valid only when it is complete."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from worldsize.common.atomic_files import storage_error
from worldsize.common.file_lock import FileLock, acquire, read_note
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import bytes_text
from worldsize.trust.directories import require_reliable_directory
from worldsize.trust.secrets import mask_text, mask_values
from worldsize.wings.environments.workspace.prefixes import (
    discard,
    is_ready,
    lock_path,
    log_path,
    write_description,
)

STEPS_DIRECTORY = "worldsize"
"""The directory in a prefix where build steps are executed."""

ProgressCallback = Callable[[str], None]
"""Function that receives a short description of the current work. It is called often."""


class Build:
    """A build in progress, as passed to the functions that execute its parts.

    prefix    the directory of the build, which exists and was empty
    log_path  a file for the output of the tools, opened to append
    inherit   descriptors that each program of the build must inherit: they hold the lock, if there is one
    secrets   texts that are neither shown nor logged
    left      data for the next builder if this build is abandoned, written into the lock's note with all progress
    """

    secrets: Sequence[str] = ()

    def __init__(
        self, prefix: str, tell: ProgressCallback, log_path: str | None = None, lock: FileLock | None = None
    ) -> None:
        self.prefix = prefix
        self.log_path = log_path or os.path.join(prefix, "log")
        self.inherit: tuple[int, ...] = (lock.descriptor,) if lock else ()
        self.left: dict[str, Any] = {}
        self._lock = lock
        self._tell = tell

    @property
    def inputs(self) -> str:
        """The directory for uv's input files, which may hold passwords of indexes. It is removed when the build is
        complete."""
        return os.path.join(self.prefix, STEPS_DIRECTORY, "inputs")

    def report_progress(self, what: str) -> None:
        """Report the current work of the build, with secrets masked, to the user of this process and to other processes
        that wait for the build."""
        masked = self.mask(what)
        if self._lock:
            self._lock.note(masked, **self.left)
        self._tell(masked)

    def report_step(self, what: str) -> None:
        """Report the current work of the build as progress, and write it to the build's log."""
        self.report_progress(what)
        with open(self.log_path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write("==> {} {}\n".format(time.strftime("%H:%M:%S", time.gmtime()), self.mask(what)))

    def notice(self, text: str, id: str = "") -> None:
        """Report `text` as a step of the build. This is the interface that a store of downloads calls."""
        self.report_step(text)

    def transfer(self, what: str, done: int, total: int) -> None:
        """Report the progress of a download as progress of the build. This is the interface that a store of downloads
        calls."""
        self.report_progress("{}: {}{}".format(what, bytes_text(done), f" of {bytes_text(total)}" if total else ""))

    def mask(self, text: str) -> str:
        """Return `text` with the parts that look like a secret, and this build's `secrets`, masked."""
        return mask_text(str(mask_values(text, self.secrets)))


EnvironmentMaker = Callable[[Build], dict[str, Any]]
"""Function that makes an environment in `Build.prefix` and returns its description."""


def ensure_built(
    prefix: str,
    make: EnvironmentMaker,
    tell: ProgressCallback,
    on_abandoned: Callable[[dict[str, Any]], None] | None = None,
) -> bool:
    """Build the environment in `prefix` by `make` unless it exists. Return whether this process built it.

    If several processes request it at the same time, also on several machines that share the directory, one builds and
    the others wait. A builder that is killed leaves nothing valid: the next one starts from the beginning, after a call
    of `on_abandoned` with the last builder's note. Raise BuildError, StorageError, and the errors of `make`; only the
    log remains then.
    """
    require_reliable_directory(os.path.dirname(prefix))
    if is_ready(prefix):
        return False
    lock = acquire(lock_path(prefix), lambda note: tell(_wait_message(note)))
    assert lock is not None
    try:
        if is_ready(prefix):
            return False
        _begin_build(prefix, lock, on_abandoned)
        try:
            with replaced_signal_handlers((signal.SIGTERM, signal.SIGHUP), _exit, _is_default):
                _make_environment(prefix, make, Build(prefix, tell, log_path(prefix), lock))
        except BaseException:
            discard(prefix)
            raise
        return True
    except OSError as error:
        raise storage_error(error, error.filename or prefix) from None
    finally:
        lock.release()


def remove_if_idle(prefix: str) -> bool:
    """Remove the built environment `prefix`, its log and its lock, and return True. Return False, and remove nothing,
    if another process is building it. Raise StorageError."""
    lock = acquire(lock_path(prefix))
    if lock is None:
        return False
    try:
        discard(prefix)
        for path in (log_path(prefix), lock_path(prefix)):
            if os.path.exists(path):
                os.unlink(path)
    except OSError as error:
        raise storage_error(error, error.filename or prefix) from None
    finally:
        lock.release()
    return True


def _begin_build(prefix: str, lock: FileLock, on_abandoned: Callable[[dict[str, Any]], None] | None) -> None:
    """Prepare the build of an environment: call `on_abandoned` with the note of an earlier builder, remove its files,
    and create the directory `prefix` and an empty log."""
    note = read_note(lock_path(prefix))
    if note and on_abandoned is not None:
        on_abandoned(note)
    discard(prefix)
    lock.note("beginning")
    os.mkdir(prefix, 0o700)
    os.close(os.open(log_path(prefix), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600))


def _make_environment(prefix: str, make: EnvironmentMaker, work: Build) -> None:
    began = time.time()
    description = make(work)
    took = time.time() - began
    write_description(prefix, {**description, "created": began, "took": took, "host": os.uname().nodename})


@contextmanager
def replaced_signal_handlers(
    numbers: Iterable[int], handler: Callable[[int, object], None], replaces: Callable[[Any], bool]
) -> Iterator[None]:
    """Replace the handler of each of the signals for whose present handler `replaces` is true, within the context. Do
    nothing outside of the main thread, where Python has no handlers."""
    former: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for number in map(int, numbers):
                if replaces(signal.getsignal(number)):
                    former[number] = signal.signal(number, handler)
        yield
    finally:
        for number, own in former.items():
            signal.signal(number, own)


def _exit(number: int, frame: object) -> None:
    """Raise SystemExit for the signal `number`: TERM, or the HUP of a terminal that closes. So the build of an
    environment ends as with Ctrl-C. All programs that it has started, which have sessions of their own, are stopped,
    and no incomplete environment remains. Handlers of other code are not replaced."""
    raise SystemExit(128 + number)


def _is_default(handler: Any) -> bool:
    return bool(handler == signal.SIG_DFL)


def _wait_message(note: dict[str, Any]) -> str:
    """Return the message for processes that wait until another process has built the environment: the builder's
    process, host and step, from its note."""
    if not note:
        return "waiting for its builder"
    return f"waiting for process {note.get('pid')} on {note.get('host')}: {note.get('step')}"
