"""A command at a real terminal, as somebody types into it."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys
import time
from types import TracebackType

from driver import Cli


class Terminal:
    """`worldsize` with `words`, or a `shell` with a line of its own; its screen and its keyboard."""

    def __init__(self, cli: Cli, *words: str, shell: bool = False, **environ: str) -> None:
        self.shown = ""
        self._pid, self._screen = pty.fork()
        if self._pid == 0:
            for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            os.chdir(cli.project)
            command = ["/bin/bash", "-c", *words] if shell else [sys.executable, "-m", "worldsize", *words]
            os.execve(command[0], command, {**cli.environ, "TERM": "dumb", **environ})

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        """Closes the terminal: whoever lives on it hears HUP."""
        os.close(self._screen)
        if self._pid:
            os.waitpid(self._pid, 0)

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def until(self, text: str, timeout: float = 20) -> None:
        """Reads the screen until `text` comes, which is not looked for before what an earlier call found."""
        deadline = time.monotonic() + timeout
        seen = ""
        while text not in seen:
            assert time.monotonic() < deadline, "%r did not come: %r" % (text, self.shown)
            new = self._read()
            assert new is not None, "%r did not come, the end did: %r" % (text, self.shown)
            seen += new
            self.shown += new

    def end(self, timeout: float = 20) -> int:
        """Reads to the end; the exit code."""
        deadline = time.monotonic() + timeout
        while (new := self._read()) is not None:
            assert time.monotonic() < deadline, "it did not end: %r" % self.shown
            self.shown += new
        pid, self._pid = self._pid, 0
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _read(self) -> str | None:
        if not select.select([self._screen], [], [], 0.1)[0]:
            return ""
        try:
            return os.read(self._screen, 65536).decode(errors="replace") or None
        except OSError:
            return None  # the other side of the terminal is closed
