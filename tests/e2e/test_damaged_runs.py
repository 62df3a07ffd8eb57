"""Run directories with one damaged file, seen by every command that reads a run, in this process: words and an exit
code come back, never an exception, an endless loop, or a success that was none."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from driver import Cli, Result
from in_process import InProcess

SECONDS = 10
"""Of this process's own time, for each command."""

FAILING = "import os, sys\nprint('hello')\nsys.stderr = open(os.devnull, 'w')\nif os.environ['RANK'] == '3': raise ValueError('wrong')\n"
TREE = "code/"
JSON = (".json", ".jsonl")
VALUES = (None, True, -1, 1.5, 10**30, float("inf"), float("nan"), "x", "\ud800", "\0\n\x1b[2J", [], [[]], {}, {"x": 1})
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
    """As a newer release may write it: a further key in each object."""
    if isinstance(value, dict):
        return {**{key: with_unknown(item) for key, item in value.items()}, "of_a_newer_release": [1]}
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


class Kept:
    """A home whose runs can be damaged, and are whole again after `restore`."""

    def __init__(self, cli: InProcess, pristine: str) -> None:
        self.cli = cli
        self.pristine = pristine
        self.runs = os.path.join(cli.home, "runs")
        self._touched: set[str] = set()
        self.troubles: dict[str, str] = {}

    def restore(self, run: str) -> None:
        root = os.path.join(self.runs, run)
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(os.path.join(self.pristine, run), root, symlinks=True, copy_function=os.link)

    def files(self, run: str) -> list[str]:
        root = os.path.join(self.pristine, run)
        found = [
            os.path.relpath(os.path.join(directory, name), root)
            for directory, _, names in os.walk(root)
            for name in names
        ]
        return sorted(path for path in found if TREE not in path)

    def data(self, run: str, path: str) -> bytes:
        with open(os.path.join(self.pristine, run, path), "rb") as file:
            return file.read()

    def damage(self, run: str, damage: Damage) -> None:
        self.restore(run)
        path = os.path.join(self.runs, run, damage.of)
        data = self.data(run, damage.of)
        os.unlink(path)
        damage.do(path, data)

    def __call__(self, damage: Damage, *words: str) -> Result | None:
        """What a command does; None, and noted, where it raises or takes too long."""
        try:
            with_limit = self._limited(*words)
        except BaseException as error:  # noqa: BLE001  (each of them is what is looked for)
            if isinstance(error, KeyboardInterrupt):
                raise
            self.note(damage, words, repr(error)[:300], error)
            return None
        if with_limit.code not in (0, 1, 2, 3, 124, 130):
            self.note(damage, words, "code %d" % with_limit.code)
        said = with_limit.out + with_limit.err
        if "Traceback" in said or re.search(r"^worldsize: \[Errno", with_limit.err, re.M):
            self.note(damage, words, said[-300:])
        return with_limit

    def _limited(self, *words: str) -> Result:
        kept = signal.signal(signal.SIGALRM, _too_long)
        signal.setitimer(signal.ITIMER_REAL, 4)
        try:
            return self.cli(*words)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, kept)

    def note(self, damage: Damage, words: tuple[str, ...], what: str, error: BaseException | None = None) -> None:
        where = ""
        if error is not None:
            at = error.__traceback__
            while at is not None:
                where = "%s:%d" % (at.tb_frame.f_code.co_filename.rpartition("src/")[2], at.tb_lineno)
                at = at.tb_next
        key = "%s %s %s %s" % (damage.of, words[0], where, re.sub(r"\d+", "N", what)[:60])
        self.troubles.setdefault(key, "%s, %s: %s: %s %s" % (damage.of, damage.name, " ".join(words), where, what))


def _too_long(number: int, frame: FrameType | None) -> None:
    raise TimeoutError("more than %d s" % SECONDS)
