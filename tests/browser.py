"""A real browser without a window, spoken to in the DevTools protocol through a pipe: what a page of a file shows, what
it asks for and what it says on its console."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PROGRAMS = ("chromium-headless-shell", "google-chrome")
PATIENCE = 60
"""Seconds to wait for an answer."""


class Shown(NamedTuple):
    """A page, when it has been loaded.

    title, text  as a person reads them: without what is folded
    requests     the URLs that it asked for, beside its own; those that its policy refuses are among the messages
    messages     what the console got: errors, refusals of the page's policy, what scripts wrote; and dialogs
    picture      PNG of the whole page
    width        of the page in CSS pixels; more than was asked for where it must be scrolled sideways
    answers      of the expressions that were asked, by JSON
    """

    title: str
    text: str
    requests: list[str]
    messages: list[str]
    picture: bytes
    width: int
    answers: list[Any]


class Browser:
    def __init__(self, process: subprocess.Popen[bytes], commands: int, answers: int) -> None:
        self.process = process
        self._commands, self._answers = commands, answers
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        self._events: list[dict[str, Any]] = []

    def open_page(
        self, page: Path | str, *, dark: bool = False, width: int = 1000, ask: tuple[str, ...] = (), until: str = ""
    ) -> Shown:
        """Open a file or a URL. `ask`: expressions of JavaScript, evaluated in the page. `until`: one that becomes true
        before."""
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        try:
            return self._shown(page if isinstance(page, str) else page.as_uri(), dark, width, (until, *ask))
        finally:
            self._session = None
            self._call("Target.closeTarget", targetId=target)

    def _shown(self, url: str, dark: bool, width: int, asked: tuple[str, ...]) -> Shown:
        until, *ask = asked
        for domain in ("Page", "Network", "Log", "Runtime"):
            self._call(domain + ".enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", features=[scheme])
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False)
        self._events.clear()
        self._call("Page.navigate", url=url)
        self._wait_for_event("Page.loadEventFired")
        if until:
            self._wait_until(until)
        title, text, *answers = [
            self._call("Runtime.evaluate", expression=each, returnByValue=True)["result"].get("value")
            for each in ("document.title", "document.body.innerText", *ask)
        ]
        size = self._call("Page.getLayoutMetrics")["cssContentSize"]
        picture = base64.b64decode(self._call("Page.captureScreenshot", captureBeyondViewport=True)["data"])
        requests, messages = self._what_happened(url)
        return Shown(title, text, requests, messages, picture, int(size["width"]), answers)

    def _what_happened(self, url: str) -> tuple[list[str], list[str]]:
        requests, messages = [], []
        refused = {each["params"]["requestId"] for each in self._events if each["params"].get("blockedReason")}
        for event in self._events:
            method, what = event["method"], event["params"]
            if method == "Network.requestWillBeSent" and what["request"]["url"] != url:
                requests += [what["request"]["url"]] * (what["requestId"] not in refused)
            elif method == "Log.entryAdded":
                messages.append(what["entry"]["text"])
            elif method == "Runtime.consoleAPICalled":
                messages.append(" ".join(str(each.get("value")) for each in what["args"]))
            elif method == "Runtime.exceptionThrown":
                messages.append(what["exceptionDetails"]["text"])
            elif method == "Page.javascriptDialogOpening":
                messages.append("dialog: " + what["message"])
        return requests, messages

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        command = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            command["sessionId"] = self._session
        os.write(self._commands, json.dumps(command).encode() + b"\0")
        while (answer := self._next_message()).get("id") != self._number:
            self._take_event(answer)
        assert "error" not in answer, "%s: %s" % (method, answer["error"])
        result: dict[str, Any] = answer["result"]
        return result

    def _wait_until(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self._call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value"):
            assert time.monotonic() < deadline, "%s did not become true" % expression
            time.sleep(0.02)

    def _wait_for_event(self, method: str) -> None:
        while all(event["method"] != method for event in self._events):
            self._take_event(self._next_message())

    def _take_event(self, message: dict[str, Any]) -> None:
        if "method" not in message:
            return
        self._events.append(message)
        if message["method"] == "Page.javascriptDialogOpening":
            command = {"id": 0, "method": "Page.handleJavaScriptDialog", "params": {"accept": False}}
            command["sessionId"] = message["sessionId"]
            os.write(self._commands, json.dumps(command).encode() + b"\0")

    def _next_message(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._answers], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser has not answered for %d s" % PATIENCE
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser has ended"
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        return message


def hand_over(commands: int, answers: int) -> None:
    """The protocol is spoken on descriptors 3 and 4, which may be any of these two."""
    high = [fcntl.fcntl(each, fcntl.F_DUPFD_CLOEXEC, 10) for each in (commands, answers)]
    for each, wanted in zip(high, (3, 4), strict=True):
        os.dup2(each, wanted)


@contextmanager
def run_browser(directory: Path) -> Iterator[Browser]:
    """It keeps what it writes in `directory`, and ends with the block. Without a browser the test is skipped."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("no browser (chromium-headless-shell): sh scripts/system-packages.sh")
    commands_read, commands = os.pipe()
    answers, answers_write = os.pipe()
    words = [program, "--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage"]
    words += ["--no-first-run", "--disable-background-networking", "--user-data-dir=%s" % directory]
    words += ["--no-sandbox"] if os.geteuid() == 0 else []
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": str(directory)},
        start_new_session=True, close_fds=False, preexec_fn=lambda: hand_over(commands_read, answers_write),
    )  # fmt: skip
    os.close(commands_read)
    os.close(answers_write)
    try:
        yield Browser(process, commands, answers)
    finally:
        os.close(commands)  # the browser ends where nobody speaks to it any more
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
        os.close(answers)
