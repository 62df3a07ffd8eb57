"""Run directories with one damaged file, seen by every command that reads a run: words and an exit code come back,
never an exception, an endless loop, or a success that was none."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from driver import Cli, Result, wait_for
from in_process import InProcess

SECONDS = 10
"""Of this process's own time, for each command."""

FAILING = """
import os, sys
print("hello")
sys.stderr = open(os.devnull, "w")
if os.environ["RANK"] == "3":
    raise ValueError("wrong")
"""
JSON = (".json", ".jsonl")
VALUES = (None, True, -1, 1.5, 10**30, float("inf"), float("nan"), "x", "\ud800", "\0\n\x1b[2J", [], [[]], {}, {"x": 1})
FREE = ("environment", "activated", "options", "variables", "files", "services", "tags")
"""Keys of objects whose keys are the user's."""

DEEP = 100_000

BYTES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "NUL bytes": lambda data: b"\0" * len(data),
    "not UTF-8": lambda data: data[: len(data) // 2] + b"\xff\xfe" + data[len(data) // 2 :],
    "flipped": lambda data: data[: len(data) // 3] + bytes(each ^ 4 for each in data[len(data) // 3 :]),
    "deep": lambda data: b"[" * DEEP,
    "deep objects": lambda data: b'{"a":' * DEEP,
    "a large number": lambda data: b"9" * 5000,
    "NaN": lambda data: b"NaN",
    "null": lambda data: b"null",
    "a list": lambda data: b"[1]",
    "a surrogate": lambda data: b'"\\ud800"',
    "an object": lambda data: b"{}",
    "something behind it": lambda data: data + b"}\n",
}


def directory(path: str) -> None:
    os.mkdir(path)


def pipe(path: str) -> None:
    os.mkfifo(path)


def dangling(path: str) -> None:
    os.symlink("nowhere", path)


def circle(path: str) -> None:
    os.symlink(os.path.basename(path), path)


def device(path: str) -> None:
    os.symlink("/dev/zero", path)


def missing(path: str) -> None:
    pass


PLACES = (missing, directory, pipe, dangling, circle, device)


class Damage(NamedTuple):
    """What is done to a file: `of`, its path in the run's directory; `do` gets its path and what it held."""

    of: str
    name: str
    do: Callable[[str, bytes], None]


def written(change: Callable[[bytes], bytes]) -> Callable[[str, bytes], None]:
    def do(path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(change(data))

    return do


def put(place: Callable[[str], None]) -> Callable[[str, bytes], None]:
    return lambda path, data: place(path)


def places_in(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a JSON value, itself included; of what is alike, the first and the last item."""
    yield at
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
        alike = len(items) > 3 and len({type(item) for item in value.values()}) == 1
    elif isinstance(value, list) and value:
        items, alike = list(enumerate(value)), True
    if items and alike:
        items = items[:: max(len(items) - 1, 1)]
    for key, item in items:
        yield from places_in(item, (*at, key))


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], new)
    return copy


def without(value: Any, at: tuple[Any, ...]) -> Any:
    copy = dict(value) if isinstance(value, dict) else list(value)
    if len(at) == 1:
        del copy[at[0]]
    else:
        copy[at[0]] = without(value[at[0]], at[1:])
    return copy


def with_unknown(value: Any) -> Any:
    """As a newer release may write it: a further key in each object whose keys are ours."""
    if isinstance(value, dict):
        kept = {key: item if key in FREE else with_unknown(item) for key, item in value.items()}
        return {**kept, "of_a_newer_release": [1]}
    return [with_unknown(item) for item in value] if isinstance(value, list) else value


def of_values(path: str, data: bytes, values: tuple[Any, ...]) -> Iterator[Damage]:
    """Each of `values` in each place of a file of JSON; of a file of lines, in the line about the ranks."""
    lines = data.split(b"\n") if path.endswith(".jsonl") else [data]
    line = next((k for k, each in enumerate(lines) if b"ranks_started" in each), 0)
    tree = json.loads(lines[line])

    def whole(new: Any) -> Callable[[str, bytes], None]:
        text = json.dumps(new).encode()
        return written(lambda _: b"\n".join([*lines[:line], text, *lines[line + 1 :]]))

    for at in places_in(tree):
        for new in values:
            yield Damage(path, "%s = %r" % (list(at), new), whole(changed(tree, at, new)))
        if at:
            yield Damage(path, "without %s" % list(at), whole(without(tree, at)))


READING = (
    ("status", "RUN"),
    ("status", "RUN", "-o", "json"),
    ("list", "-a", "-o", "json"),
    ("list", "--elements"),
    ("logs", "RUN", "-o", "json"),
    ("diff", "RUN", "OTHER"),
    ("prune", "--older-than", "0s", "--dry-run", "-o", "json"),
    ("wait", "RUN", "--timeout", "0.1"),
)
"""What every kind of damage is seen by."""

OTHERS = (
    ("list",),
    ("list", "RUN"),
    ("logs", "RUN", "--tail", "2", "--fold", "numbers"),
    ("logs", "RUN", "--rank", "0"),
    ("diff", "OTHER", "RUN", "-o", "json"),
    ("rerun", "RUN", "--dry-run"),
    ("exec", "RUN", "--", "true"),
    ("shell", "RUN"),
    ("submit", "--dry-run", "--after", "RUN", "--", "true"),
    ("env", "list"),
    ("rm", "RUN", "--dry-run"),
    ("wait", "RUN", "-o", "json", "--timeout", "0.1"),
    ("requeue", "RUN"),
    ("cancel", "RUN"),
)

FILES = (
    *("job.yml", "plan.json", "record.json", "code.json", "handle.json", "result.json", "submission.txt"),
    *("attempt-0/rendezvous.json", "attempt-0/errors/rank-00003.json", "attempt-0/logs/rank-00003.log"),
    *("attempt-0/events/node-0000.jsonl", "attempt-0/exit/node-0000.json", "attempt-0/exit/node-0001.json"),
)
OF_ARRAY = ("array.json", "handles.json", "result.json", "job.yml", "record.json", "code.json")
OF_ELEMENT = ("plan.json", "result.json", "handle.json", "attempt-0/exit/node-0000.json")
FEW = (None, "x", -1, [], 10**30, "\ud800")


class Home:
    """A home with a run that SUCCEEDED, one that FAILED and an array: they can be damaged, and are whole again after
    `restore`."""

    def __init__(self, real: Cli, root: str) -> None:
        real.write("failing.py", FAILING)
        self.ok = real.run("-w", "2x2", "--", "echo", "hello")
        self.failed = real.run("-w", "2x2", "--", sys.executable, "failing.py", code=1)
        self.array = real.submit("--count", "2", "--", "echo", "hello")
        real.ok("wait", self.array)
        self.all = {self.ok, self.failed, self.array}
        self.cli = InProcess(root)
        self.cli.home, self.cli.environ, self.cli.project = real.home, real.environ, real.project
        self.runs = os.path.join(real.home, "runs")
        self.whole = os.path.join(root, "whole")
        os.mkdir(self.whole)
        self.damaged: set[str] = set()
        for run in self.all:
            os.rename(os.path.join(self.runs, run), os.path.join(self.whole, run))
            self.restore(run)

    def restore(self, run: str) -> None:
        root = os.path.join(self.runs, run)
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(os.path.join(self.whole, run), root, symlinks=True, copy_function=os.link)

    def data(self, run: str, path: str) -> bytes:
        return Path(self.whole, run, path).read_bytes()

    def damage(self, run: str, damage: Damage, unsettled: bool = False) -> None:
        """`unsettled`: nobody has written down yet how it ended."""
        self.restore(run)
        self.damaged.add(run)
        path = os.path.join(self.runs, run, damage.of)
        if os.path.isdir(path):
            data = b""
            shutil.rmtree(path)
        else:
            data = self.data(run, damage.of)
            os.unlink(path)
        damage.do(path, data)
        if unsettled and damage.of != "result.json":
            Path(self.runs, run, "result.json").unlink(missing_ok=True)

    def __call__(self, *words: str) -> Result:
        """What a command does, in this process. TimeoutError after SECONDS of its own time."""
        kept = signal.signal(signal.SIGVTALRM, _too_long)
        signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
        try:
            return self.cli(*words)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, kept)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("it takes more than %d s" % SECONDS)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    root = str(tmp_path_factory.mktemp("damaged"))
    real = Cli(root)
    in_process = os.path.join(root, "in-process")
    os.mkdir(in_process)
    yield Home(real, in_process)
    real.close()


@pytest.fixture
def home(runs: Home) -> Iterator[Home]:
    yield runs
    for run in runs.damaged:
        runs.restore(run)
    runs.damaged.clear()


def see(home: Home, run: str, damage: Damage, commands: Iterable[tuple[str, ...]]) -> None:
    """Every command tells something of the damaged run, and the truth as far as it knows it."""
    other = home.ok if run != home.ok else home.failed
    reason = ""
    for command in commands:
        words = [{"RUN": run, "OTHER": other}.get(word, word) for word in command]
        with told(damage, words):
            code, out, err = home(*words)
            assert code in (0, 1, 2, 3, 124, 130)
            assert "Traceback" not in out + err and "[Errno" not in err, err
            assert err.strip() or code == 0 or out.strip(), "no word"
            if command[-1] == "json" and code == 0 and command[0] != "logs":
                found = json.loads(out)
                if command[0] == "status":
                    reason = found["reason"] or ""
                    assert run != home.failed or found["state"] != "SUCCEEDED"
                elif command[0] == "list":
                    assert {row["id"] for row in found} >= home.all
                    assert run != home.failed or state_of(found, run) != "SUCCEEDED"
                elif command[0] == "prune" and damage.of == "result.json" and reason.startswith("DAMAGED"):
                    assert run not in {row["id"] for row in found}
            if command[0] == "list" and "RUN" not in command:
                assert code == 0
            if command[0] == "wait" and run == home.failed:
                assert code != 0
            if reason.startswith("DAMAGED: "):
                assert damage.of.endswith(reason.removeprefix("DAMAGED: ")), reason


def state_of(rows: list[dict[str, Any]], run: str) -> str:
    return next(str(row["state"]) for row in rows if row["id"] == run)


@contextlib.contextmanager
def told(damage: Damage, words: list[str]) -> Iterator[None]:
    """Whatever goes wrong, with what was damaged how, and the command."""
    try:
        yield
    except BaseException as error:
        error.add_note("%s: %s: worldsize %s" % (damage.of, damage.name, " ".join(words)))
        raise


def whole_files(path: str, names: Iterable[str] = BYTES) -> list[Damage]:
    """The damages that do not depend on what the file holds."""
    found = [Damage(path, name, written(BYTES[name])) for name in names]
    return found + [Damage(path, place.__name__, put(place)) for place in PLACES]


def values(home: Home, run: str, path: str, chosen: tuple[Any, ...]) -> list[Damage]:
    return list(of_values(path, home.data(run, path), chosen)) if path.endswith(JSON) else []


@pytest.mark.parametrize("path", FILES)
def test_each_file_of_a_run_that_failed(home: Home, path: str) -> None:
    for damage in whole_files(path):
        home.damage(home.failed, damage)
        see(home, home.failed, damage, READING)


@pytest.mark.parametrize("path", ["plan.json", "handle.json", "attempt-0/exit/node-0001.json"])
def test_a_run_whose_end_nobody_has_written_down(home: Home, path: str) -> None:
    for damage in whole_files(path):
        home.damage(home.failed, damage, unsettled=True)
        see(home, home.failed, damage, READING)


@pytest.mark.parametrize("path", ["plan.json", "result.json", "attempt-0/errors/rank-00003.json"])
def test_another_value_at_each_key(home: Home, path: str) -> None:
    for damage in values(home, home.failed, path, (None, -1, "\ud800")):
        home.damage(home.failed, damage)
        see(home, home.failed, damage, READING[1:3])


@pytest.mark.parametrize("path", ["array.json", "handles.json", "result.json"])
def test_each_file_of_an_array(home: Home, path: str) -> None:
    for damage in whole_files(path):
        home.damage(home.array, damage)
        see(home, home.array, damage, READING)


@pytest.mark.parametrize("path", [*FILES, *OF_ARRAY[:2]])
def test_what_a_newer_release_adds(home: Home, path: str) -> None:
    """Further keys in each object change nothing of what is told."""
    run = home.array if path in OF_ARRAY[:2] else home.failed
    if not path.endswith(JSON):
        return
    before = home("status", run, "-o", "json").out
    lines = home.data(run, path).split(b"\n") if path.endswith("l") else [home.data(run, path)]
    more = b"\n".join(json.dumps(with_unknown(json.loads(line))).encode() if line else line for line in lines)
    damage = Damage(path, "more keys", written(lambda _: more))
    home.damage(run, damage, unsettled=path != "result.json" and run == home.failed)
    see(home, run, damage, READING)
    after = home("status", run, "-o", "json").out
    kept = ("state", "reason", "exit_code", "message", "nodes", "ranks", "name")
    assert [json.loads(after)[key] for key in kept] == [json.loads(before)[key] for key in kept]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("plan.json", ("status", "RUN")),
        ("plan.json", ("logs", "RUN")),
        ("array.json", ("status", "RUN")),
        ("array.json", ("wait", "RUN")),
        ("code.json", ("diff", "RUN", "OTHER")),
        ("record.json", ("diff", "RUN", "OTHER")),
    ],
)
def test_a_format_of_a_newer_release(home: Home, path: str, words: tuple[str, ...]) -> None:
    run = home.array if path == "array.json" else home.failed
    value = {**json.loads(home.data(run, path)), "version": 2}
    damage = Damage(path, "version 2", written(lambda _: json.dumps(value).encode()))
    home.damage(run, damage)
    see(home, run, damage, READING)
    result = home(*({"RUN": run, "OTHER": home.ok}.get(word, word) for word in words))
    said = result.out + result.err
    assert os.path.join(home.runs, run, path) in said, said
    assert "a newer worldsize wrote it" in said and "update worldsize" in said, said


def test_a_damaged_run_is_shown_as_such_and_goes_when_it_is_named(home: Home) -> None:
    damage = Damage("result.json", "empty", written(BYTES["empty"]))
    home.damage(home.failed, damage)
    shown = home("list")
    assert shown.code == 0 and "DAMAGED: result.json" in shown.out and home.ok in shown.out
    told = home("status", home.failed).out
    assert "its run directory is damaged" in told and "result.json" in told and "worldsize rm" in told
    assert home.failed not in home("prune", "--state", "LOST", "--dry-run").out
    removed = home("rm", home.failed, "--with-outputs")
    assert removed.code == 0 and home.failed in removed.out, removed
    assert not os.path.exists(os.path.join(home.runs, home.failed))


def test_a_run_that_goes_on_is_not_removed_because_its_plan_cannot_be_read(tmp_path: Path) -> None:
    """Found by review: a run of a newer release was ended, and removed."""
    cli = Cli(str(tmp_path))
    try:
        run = cli.submit("--", "sleep", "60")
        wait_for(lambda: cli.has_begun(run))
        plan = cli.read(run, "plan.json")
        for text in (plan.replace('"version":1', '"version":2'), "{"):
            with open(cli.path(run, "plan.json"), "w") as file:
                file.write(text)
            refused = cli("rm", run)
            assert refused.code == 2 and "is still running" in refused.err, refused
        with open(cli.path(run, "plan.json"), "w") as file:
            file.write(plan)
        assert cli.status(run)["state"] == "RUNNING"
        cli.ok("cancel", run)
    finally:
        cli.close()


DIRECTORIES = ("attempt-0", "attempt-0/exit", "attempt-0/events", "attempt-0/logs", "attempt-0/errors", "code")


@pytest.mark.parametrize("path", DIRECTORIES)
def test_each_directory_of_a_run(home: Home, path: str) -> None:
    """Something else is in its place."""
    damages = [*whole_files(path, ("empty",)), Damage(path, "an empty directory", put(directory))]
    for unsettled in (False, True):
        for damage in damages:
            home.damage(home.failed, damage, unsettled)
            see(home, home.failed, damage, READING)


def test_a_mark_of_a_run_in_preparation_that_says_nothing(home: Home) -> None:
    host = os.uname().nodename
    for mark in ("", "x", "²:1:" + host, "1:²:" + host, "9" * 1000 + ":1:" + host, "-1:-1:" + host, "1:1"):
        damage = Damage("plan.json", "preparing %.20s" % mark, put(missing))
        home.damage(home.failed, damage, unsettled=True)
        if mark:
            os.symlink(mark, os.path.join(home.runs, home.failed, "preparing"))
        see(home, home.failed, damage, READING)


def cuts(data: bytes) -> list[int]:
    """Each place where a file can end; of a long one, every so many bytes."""
    return list(range(0, len(data), max(len(data) // 300, 1)))


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("unsettled", [False, True])
def test_each_damage_of_each_file(home: Home, path: str, unsettled: bool) -> None:
    data = home.data(home.failed, path)
    for damage in whole_files(path):
        home.damage(home.failed, damage, unsettled)
        see(home, home.failed, damage, (*READING, *OTHERS))
    ended = [Damage(path, "ends at %d" % at, written(lambda data, at=at: data[:at])) for at in cuts(data)]
    for damage in [*ended, *values(home, home.failed, path, FEW)]:
        home.damage(home.failed, damage, unsettled)
        see(home, home.failed, damage, READING[1:])


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", ["plan.json", "result.json", "handle.json", "attempt-0/exit/node-0000.json"])
def test_each_value_at_each_key(home: Home, path: str) -> None:
    for damage in values(home, home.ok, path, VALUES):
        home.damage(home.ok, damage)
        see(home, home.ok, damage, READING)


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", [*OF_ARRAY, *("ELEMENT/" + name for name in OF_ELEMENT)])
@pytest.mark.parametrize("unsettled", [False, True])
def test_each_damage_of_an_array(home: Home, path: str, unsettled: bool) -> None:
    path = path.replace("ELEMENT", home.array + "_1")
    for damage in whole_files(path):
        home.damage(home.array, damage, unsettled)
        see(home, home.array, damage, (*READING, *OTHERS))
    for damage in values(home, home.array, path, FEW):
        home.damage(home.array, damage, unsettled)
        see(home, home.array, damage, READING)
