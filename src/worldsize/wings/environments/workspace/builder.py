"""An environment is built once, in its final place, and counts only once it is whole."""

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
"""Is told what is being done, in a few words; called often."""


class Build:
    """A build in progress, as the functions that do its parts see it.

    prefix    where it is built: a directory that exists, and was empty
    log_path  a file for what the tools print, opened to append
    inherit   descriptors that each program which is started has to be given: they hold the lock, if there is one
    secrets   texts that are neither shown nor logged
    left      what whoever finds the build abandoned has to know, written into the lock's note with all progress
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
        """The directory for files that uv is given, which may hold passwords of indexes: removed once all is built."""
        return os.path.join(self.prefix, STEPS_DIRECTORY, "inputs")

    def report_progress(self, what: str) -> None:
        """Tell this process's user, and those who wait for the build, what is being done, without secrets."""
        masked = self.mask(what)
        if self._lock:
            self._lock.note(masked, **self.left)
        self._tell(masked)

    def report_step(self, what: str) -> None:
        """Tell them, and the log."""
        self.report_progress(what)
        with open(self.log_path, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write("==> {} {}\n".format(time.strftime("%H:%M:%S", time.gmtime()), self.mask(what)))

    def notice(self, text: str, id: str = "") -> None:
        """Report a step, as a store of downloads calls it."""
        self.report_step(text)

    def transfer(self, what: str, done: int, total: int) -> None:
        """Report how much of a download is done, as a store of downloads calls it."""
        self.report_progress("{}: {}{}".format(what, bytes_text(done), f" of {bytes_text(total)}" if total else ""))

    def mask(self, text: str) -> str:
        """Return the text without what looks like a secret, and without this build's `secrets`."""
        return mask_text(str(mask_values(text, self.secrets)))


EnvironmentMaker = Callable[[Build], dict[str, Any]]
"""Makes an environment in `Build.prefix` and returns its description."""


def ensure_built(
    prefix: str,
    make: EnvironmentMaker,
    tell: ProgressCallback,
    on_abandoned: Callable[[dict[str, Any]], None] | None = None,
) -> bool:
    """Make sure that the environment is in `prefix`; return whether this process built it.
    However many ask for it at the same time, on however many machines that share the directory, one builds and the
    others wait. One that is killed leaves nothing that counts: the next begins anew, after `on_abandoned` was told what
    the last builder noted. Raises BuildError, StorageError, and what `make` raises; nothing is left then but the log.
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
    """Remove the environment, its log and its lock; False, and nothing is removed, where somebody builds it now.
    StorageError."""
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
    """Remove what an earlier builder left, whose note `on_abandoned` is told, and make the directory and an empty
    log."""
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
    """Inside, `handler` is called for each of the signals for whose own handler `replaces` is true; for none outside of
    the main thread, where Python has no handlers."""
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
    """End a build as Ctrl-C does, on TERM and on the HUP of a terminal that closes: with all programs that it has
    started, which have sessions of their own, and without half of an environment. Handlers of others stay."""
    raise SystemExit(128 + number)


def _is_default(handler: Any) -> bool:
    return bool(handler == signal.SIG_DFL)


def _wait_message(note: dict[str, Any]) -> str:
    """What those who wait for another builder are told, by its note."""
    if not note:
        return "waiting for its builder"
    return f"waiting for process {note.get('pid')} on {note.get('host')}: {note.get('step')}"
