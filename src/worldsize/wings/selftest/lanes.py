"""The lanes: processes of pytest that run the suite in parallel, and the events that they report about each test."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.selftest.report import Verdict

SUITE = "worldsize_conformance.suite"
PLUGIN = "worldsize_conformance.session"
ORDER_VARIABLE = "WORLDSIZE_SELFTEST"
_POLL = 0.2
_END_PATIENCE = 45.0
"""Seconds that an interrupted lane has to clean up after its test."""
_COLLECTION_PATIENCE = 120.0
"""Seconds that pytest may take to find the tests, also if the order ends earlier: on a busy machine it is slow."""

News = Callable[[Mapping[str, Any]], None]


class Order(NamedTuple):
    """The instructions for the lanes.

    private   the self-test's own directory, which the nodes see
    target    the fields of the suite's `Target`
    lanes     the number of lanes that run in parallel
    begin_by  no test is begun after this time, by time.monotonic()
    end_by    tests that still run at this time are interrupted; pytest is not, while it finds the tests
    keyword   pytest's -k; "" for all tests
    """

    private: str
    target: Mapping[str, Any]
    lanes: int
    begin_by: float
    end_by: float
    keyword: str = ""


class Lane:
    """A process of pytest that runs a part of the tests."""

    def __init__(self, order: Order, number: int, environ: Mapping[str, str]) -> None:
        self.folder = os.path.join(order.private, f"lane-{number}")
        os.mkdir(self.folder)
        self.news = os.path.join(self.folder, "news.jsonl")
        self.log = os.path.join(self.folder, "log")
        self._seen = 0
        said = {"target": order.target, "lane": [number, order.lanes], "deadline": order.begin_by, "news": self.news}
        self._write("order.json", json.dumps(said))
        self._write("pytest.ini", "[pytest]\n")
        self.process = self._start(order.keyword, environ)

    def _write(self, name: str, text: str) -> None:
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def _start(self, keyword: str, environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        """Start the lane's pytest process in its own session, so that a Ctrl-C reaches only the parent, which ends the
        lanes in order. Return the process. `keyword` is pytest's -k."""
        place = ["-c", "pytest.ini", "--rootdir", self.folder, "--basetemp", os.path.join(self.folder, "tmp")]
        words = ["-q", "-p", PLUGIN, "-p", "no:cacheprovider", *place, *(["-k", keyword] if keyword else [])]
        with open(self.log, "wb") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "pytest", *words, "--pyargs", SUITE],
                cwd=self.folder,
                env=lane_environ(environ, self.folder),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def read_news(self) -> list[dict[str, Any]]:
        """Return the events about tests that the lane's pytest has written since the last call, as a list of JSON
        objects. Only whole lines are read."""
        try:
            with open(self.news, "rb") as file:
                file.seek(self._seen)
                text = file.read()
        except FileNotFoundError:
            return []
        whole = text[: text.rfind(b"\n") + 1]
        self._seen += len(whole)
        return [json.loads(line) for line in whole.splitlines()]

    def end(self, patience: float) -> None:
        """Interrupt the lane's pytest process, which then stops what its test has started, and wait for its end. Kill
        it after `patience` seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def last_words(self) -> str:
        """Return the last line of the lane's log, which contains pytest's output; "" if there is none."""
        with open(self.log, errors="replace") as file:
            lines = file.read()[-10_000:].strip().splitlines()
        return lines[-1] if lines else ""


def lane_environ(environ: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the environment variables for the pytest process of a lane in `folder`, from `environ`, so that it loads
    no plugins of the user, ignores the user's options, and leaves no compiled files among the sources."""
    kept = {name: value for name, value in environ.items() if not name.startswith("PYTEST_")}
    source = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    searched = [os.path.abspath(each) for each in kept.get("PYTHONPATH", "").split(os.pathsep) if each]
    if source not in (*sys.path[1:], *searched):
        searched = [source, *searched]
    return {
        **kept,
        **({"PYTHONPATH": os.pathsep.join(searched)} if searched else {}),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        "PYTHONPYCACHEPREFIX": os.path.join(folder, "pycache"),
        ORDER_VARIABLE: os.path.join(folder, "order.json"),
    }


class Run:
    """The run of the suite in all lanes. `results` contains the verdict on each test so far, `hosts` the machines that
    the tests have used."""

    def __init__(self, order: Order, environ: Mapping[str, str], news: News) -> None:
        self.order, self._news = order, news
        self.results: dict[str, Verdict] = {}
        self.hosts: set[str] = set()
        self.begun: set[str] = set()
        self.late = False
        self.lanes = [Lane(order, number, environ) for number in range(order.lanes)]

    def follow(self) -> None:
        """Read the tests' events until all lanes have ended. After the order's `end_by`, interrupt the lanes that still
        run, once the tests are known."""
        find_by = time.monotonic() + _COLLECTION_PATIENCE
        while any(lane.process.poll() is None for lane in self.lanes):
            self._read()
            now = time.monotonic()
            if now > self.order.end_by and (self.results or now > find_by):
                self.late = True
                break
            time.sleep(_POLL)
        self.end()

    def end(self) -> None:
        """End the lanes that still run, all at the same time, and read their last events. The tests that they were
        running count as not run."""
        for lane in self.lanes:
            if lane.process.poll() is None:
                lane.process.send_signal(signal.SIGINT)
        for lane in self.lanes:
            lane.end(_END_PATIENCE)
        self._read()

    def _read(self) -> None:
        for event in [event for lane in self.lanes for event in lane.read_news()]:
            self._take(event)
            self._news(event)

    def _take(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "tests":
            self.results.update({name: Verdict(name, "not run") for name in event["tests"]})
        elif kind == "begin":
            self.begun.add(event["test"])
        elif kind == "hosts":
            self.hosts.update(event["hosts"])
        elif kind == "end":
            name = event["test"]
            self.results[name] = Verdict(name, event["outcome"], event["seconds"], event["reason"])

    def all_results(self, interrupted: bool) -> list[Verdict]:
        """Return the Verdict on each test of the suite. For a test that has not run, its reason is that the self-test
        was `interrupted`, or that time ran out."""
        why = "interrupted" if interrupted else "time ran out"
        found = []
        for result in self.results.values():
            if result.outcome == "not run":
                what = f"{why} while it ran" if result.name in self.begun else why
                result = result._replace(reason=what)
            found.append(result)
        return found
