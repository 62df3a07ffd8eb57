"""Environments are built once, whole or not at all: killed builders, ten at once, waiting, removal."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from worldsize.common import file_lock
from worldsize.errors import BuildError, StorageError, WorldsizeError
from worldsize.registry import source_file
from worldsize.wings.environments.workspace import builder, prefixes

FILES = 40
BUILDER = """
import os, subprocess, sys, time
from worldsize.wings.environments.workspace import builder, prefixes

prefix, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])

def make(work):
    with open(os.path.dirname(prefix) + "/builds", "a") as builds:
        builds.write("%d\\n" % os.getpid())
    for number in range(count):
        work.report_step("file %d" % number)
        with open("%s/%d" % (work.prefix, number), "w") as file:
            file.write(str(number) * 1000)
        time.sleep(pause)
    return {"files": count}

built = builder.ensure_built(prefix, make, lambda what: None)
assert prefixes.is_ready(prefix)
assert len(os.listdir(prefix)) == count + 1
print("built" if built else "found")
"""


def build(prefix: str, count: int = FILES, pause: float = 0.002, program: str = BUILDER) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, prefix, str(count), str(pause)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.path.dirname(source_file())},
    )


def whole(prefix: str) -> bool:
    """What is ready holds everything."""
    description = prefixes.read_description(prefix)
    if description is None:
        return False
    for number in range(description["files"]):
        assert Path(prefix, str(number)).read_text() == str(number) * 1000
    return True


def builds(prefix: str) -> list[str]:
    return Path(os.path.dirname(prefix), "builds").read_text().splitlines()


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    return prefixes.prefix_path(str(tmp_path / "envs"), "torch", "0123456789abcdef" * 4)


def make_nothing(work: builder.Build) -> dict[str, Any]:
    work.report_step("nothing")
    return {"spec": "x"}


def quietly(what: str) -> None:
    pass


@pytest.mark.heavy
def test_a_killed_builder_leaves_nothing_that_counts(prefix: str) -> None:
    """Twenty builders are killed, at moments from before the first file to after the last; the next one is whole."""
    chance = random.Random(20)
    for number in range(20):
        last = time.monotonic()
        process = build(prefix)
        time.sleep(0.05 + chance.random() * 0.15)
        process.kill()
        process.communicate()
        if whole(prefix):
            assert builder.remove_if_idle(prefix), "nobody holds the lock of a builder that was killed"
        assert time.monotonic() - last < 30, number
    out, _ = build(prefix, pause=0).communicate()
    assert (out, whole(prefix)) == ("built\n", True)
    assert sorted(os.listdir(os.path.dirname(prefix))) == [
        *sorted(name for name in os.listdir(os.path.dirname(prefix)) if name.startswith(".trash-")),
        "builds",
        os.path.basename(prefix),
        os.path.basename(prefix) + ".lock",
        os.path.basename(prefix) + ".log",
    ]
    prefixes.empty_trash(os.path.dirname(prefix))
    assert not [name for name in os.listdir(os.path.dirname(prefix)) if name.startswith(".trash-")]


@pytest.mark.heavy
def test_ten_at_once_build_once(prefix: str) -> None:
    processes = [build(prefix, pause=0.005) for _ in range(10)]
    said = sorted(process.communicate()[0] for process in processes)
    assert said == ["built\n"] + ["found\n"] * 9
    assert len(builds(prefix)) == 1
    assert whole(prefix)


def test_whoever_waits_hears_how_far_it_is(prefix: str, tmp_path: Path) -> None:
    go = tmp_path / "go"
    program = BUILDER.replace(
        "        time.sleep(pause)", "        while not os.path.exists(%r): time.sleep(0.005)" % str(go)
    )
    process = build(prefix, program=program)
    heard: list[str] = []

    def hear(what: str) -> None:
        heard.append(what)
        if "process %d on" % process.pid in what and what.endswith(": file 0"):
            go.touch()

    try:
        while not prefixes.entries(os.path.dirname(prefix)):
            time.sleep(0.005)
        assert prefixes.entry(prefix).state == "building"
        assert not builder.ensure_built(prefix, make_nothing, hear)
    finally:
        heard_of_it = go.exists()
        go.touch()
        process.communicate()
    assert heard_of_it, heard


def test_what_a_killed_builder_started_keeps_the_lock(prefix: str, tmp_path: Path) -> None:
    """A tool that goes on writing after its builder was killed must not write into the next one's prefix."""
    started, go, late = tmp_path / "started", tmp_path / "go", tmp_path / "late"
    tool = "touch %s; until [ -e %s ]; do sleep 0.05; done; touch %s" % (started, go, late)
    program = BUILDER.replace(
        "    for number", '    subprocess.Popen(["sh", "-c", "%s"], pass_fds=work.inherit)\n    for number' % tool
    )
    process = build(prefix, pause=60, program=program)
    while not started.exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()

    def make(work: builder.Build) -> dict[str, Any]:
        assert late.exists()
        return make_nothing(work)

    try:
        assert prefixes.entry(prefix).state == "building"
        assert builder.ensure_built(prefix, make, lambda what: go.touch())
    finally:
        go.touch()
    assert prefixes.entry(prefix).state == "ready"


def test_the_next_builder_hears_what_the_killed_one_noted(prefix: str) -> None:
    process = build(prefix, pause=60)
    while file_lock.read_note(prefixes.lock_path(prefix)).get("step") != "file 0":
        time.sleep(0.005)
    process.kill()
    process.communicate()
    assert prefixes.entry(prefix).state == "broken"
    heard: list[dict[str, Any]] = []
    builder.ensure_built(prefix, make_nothing, quietly, heard.append)
    assert [(note["pid"], note["step"]) for note in heard] == [(process.pid, "file 0")]


def test_a_failure_leaves_nothing_but_the_log(prefix: str) -> None:
    def fail(work: builder.Build) -> dict[str, Any]:
        work.report_step("solving")
        Path(work.prefix, "half").write_text("x")
        raise BuildError("no such package")

    with pytest.raises(BuildError):
        builder.ensure_built(prefix, fail, quietly)
    assert not os.path.exists(prefix)
    assert not file_lock.is_held(prefixes.lock_path(prefix))
    assert "solving" in Path(prefixes.log_path(prefix)).read_text()
    assert builder.ensure_built(prefix, make_nothing, quietly)


def test_who_looks_whether_somebody_builds_is_not_taken_for_a_builder(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert builder.ensure_built(prefix, make_nothing, quietly)
    looking = file_lock.acquire(prefixes.lock_path(prefix))
    assert looking is not None
    monkeypatch.setattr("worldsize.common.file_lock.time.sleep", lambda _: looking.release())
    assert builder.remove_if_idle(prefix) and not os.path.exists(prefix)


def test_removed_while_others_wait(prefix: str) -> None:
    """A lock file that was removed is nobody's lock any more."""
    assert builder.ensure_built(prefix, make_nothing, quietly)
    assert builder.remove_if_idle(prefix)
    assert not os.path.exists(prefixes.lock_path(prefix))
    assert prefixes.entries(os.path.dirname(prefix)) == []
    assert builder.ensure_built(prefix, make_nothing, quietly)
    held = file_lock.acquire(prefixes.lock_path(prefix))
    assert held is not None
    assert not builder.remove_if_idle(prefix)
    held.release()


def test_entries_and_their_descriptions(prefix: str) -> None:
    began = time.time()
    builder.ensure_built(prefix, make_nothing, quietly)
    entry = prefixes.entries(os.path.dirname(prefix))[0]
    assert (entry.state, entry.label, entry.name) == ("ready", "torch", "torch-0123456789abcdef")
    description = prefixes.read_description(prefix)
    assert description is not None
    assert (description["spec"], description["host"]) == ("x", os.uname().nodename)
    assert began <= description["created"] <= time.time()
    assert prefixes.last_use_time(prefix) <= time.time()


def test_a_description_that_cannot_be_read_is_said(prefix: str) -> None:
    builder.ensure_built(prefix, make_nothing, quietly)
    path = os.path.join(prefix, prefixes.DESCRIPTION)
    for text in ('{"version": 99}', "{", "[]"):
        Path(path).write_text(text)
        with pytest.raises(WorldsizeError, match=r"env remove torch-"):
            prefixes.read_description(prefix)
        assert prefixes.entry(prefix).state == "broken"


def test_a_prefix_is_one_name_of_plain_characters() -> None:
    print_16 = "f" * 64
    assert prefixes.prefix_path("/e", "my env: x/y", print_16) == "/e/my-env-x-y-" + "f" * 16
    assert prefixes.prefix_path("/e", "…", print_16) == "/e/env-" + "f" * 16
    assert len(prefixes.prefix_path("/e", "x" * 300, print_16)) == len("/e/") + 40 + 17


def test_no_place_for_environments_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        builder.ensure_built(str(tmp_path / "file" / "x-0123456789abcdef"), make_nothing, quietly)


def test_read_only_directories_can_be_removed(prefix: str) -> None:
    def make(work: builder.Build) -> dict[str, Any]:
        directory = Path(work.prefix, "a", "b")
        directory.mkdir(parents=True)
        (directory / "c").write_text("")
        directory.chmod(0o500)
        return {}

    builder.ensure_built(prefix, make, quietly)
    assert builder.remove_if_idle(prefix)
    assert os.listdir(os.path.dirname(prefix)) == []


def test_a_note_is_json(tmp_path: Path) -> None:
    lock = file_lock.acquire(str(tmp_path / "x.lock"))
    assert lock is not None
    lock.note("a long step " * 10)
    lock.note("short", run="20261121-1")
    assert json.loads((tmp_path / "x.lock").read_text())["run"] == "20261121-1"
    lock.release()
    assert (tmp_path / "x.lock").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_somebody_else_has_arranged_for_signals_holds(prefix: str, number: signal.Signals) -> None:
    heard: list[int] = []

    def make(work: builder.Build) -> dict[str, Any]:
        signal.raise_signal(number)
        return {}

    former = signal.signal(number, lambda heard_number, _: heard.append(heard_number))
    try:
        assert builder.ensure_built(prefix, make, quietly) and heard == [number]
        signal.signal(number, signal.SIG_DFL)
        builder.remove_if_idle(prefix)
        with pytest.raises(SystemExit):
            builder.ensure_built(prefix, make, quietly)
        assert signal.getsignal(number) == signal.SIG_DFL and not os.path.exists(prefix)
    finally:
        signal.signal(number, former)
