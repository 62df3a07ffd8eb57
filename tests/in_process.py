"""The command line in the test's own process: its exit code and what it prints, without the cost of a process."""

from __future__ import annotations

import contextlib
import io
import os
import signal
from collections.abc import Iterator, Mapping, Sequence

from driver import Cli, Result

from worldsize.cli.main import main

HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def outcome(words: Sequence[str]) -> Result:
    """What a command line does in this process, with its environment and directory."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", errors="backslashreplace") for _ in range(2))
    with _signal_handlers(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = main(words)
        except SystemExit as end:
            assert isinstance(end.code, int)
            code = end.code
    shown = []
    for stream in (out, err):
        stream.flush()
        shown.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Result(code, shown[0], shown[1])


class InProcess(Cli):
    """As `Cli`, for command lines that start nothing: mistakes, help, what is read or shown."""

    def __call__(self, *words: str, cwd: str | None = None, timeout: float = 60, **environ: str) -> Result:
        with _environment({**self.environ, **environ}), _directory(cwd or self.project):
            return outcome(words)


@contextlib.contextmanager
def _signal_handlers() -> Iterator[None]:
    """The command line owns its process and leaves its handlers there; other tests of this one must not have them."""
    kept = {number: signal.getsignal(number) for number in HANDLED}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _environment(environ: Mapping[str, str]) -> Iterator[None]:
    kept = dict(os.environ)
    try:
        os.environ.clear()
        os.environ.update(environ)
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)


@contextlib.contextmanager
def _directory(path: str) -> Iterator[None]:
    kept = os.getcwd()
    try:
        os.chdir(path)
        yield
    finally:
        os.chdir(kept)
