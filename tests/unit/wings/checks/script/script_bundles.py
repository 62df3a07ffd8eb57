"""Scripts for tests, many to a file: each begins at `=== NAME  KEY=VALUE …`, a further file of it at `--- PATH`."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from worldsize.wings.checks.script.request import ScriptRequest

HERE = Path(__file__).parent
EXPECTED = re.compile(r"# expected: (script\.\w+) (bad|warning)$")


class Script(NamedTuple):
    name: str
    options: dict[str, str]
    files: dict[str, str]

    def write(self, folder: Path) -> ScriptRequest:
        """Write its files, and give the request: 2 nodes with 2 ranks and 2 GPUs each, where it is empty else."""
        for path, source in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(source)
        nodes, ranks = int(self.options.get("nodes", "2")), int(self.options.get("ranks", "2"))
        argv = shlex.split(self.options.get("command", "python " + next(iter(self.files))))
        return ScriptRequest(
            str(folder), argv, nodes, ranks, nodes * ranks, int(self.options.get("gpus", "2")),
            int(self.options.get("cores", "16")), "", self.options.get("launcher", ""),
            self.options.get("distribution", "none"), "data_parallel" in self.options,
        )  # fmt: skip

    def expected(self) -> list[tuple[str, str, int, str]]:
        """(id, file, line, verdict) of the findings that its comments, or the key `expected`, tell."""
        found = [tuple(each.split(":")) for each in self.options.get("expected", "").split(",") if each]
        result = [(id, "", 0, verdict) for id, verdict in found]
        for path, source in self.files.items():
            for number, line in enumerate(source.splitlines(), 1):
                match = EXPECTED.search(line)
                result += [(match[1], path, number, match[2])] if match else []
        return sorted(result)


def scripts(folder: str) -> list[Script]:
    return [script for path in sorted((HERE / folder).glob("*.txt")) for script in scripts_of(path.read_text())]


def scripts_of(text: str) -> list[Script]:
    found = []
    for part in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = part.partition("\n")
        name, _, options = head.partition("  ")
        pieces = re.split(r"^--- (\S+)\n", body, flags=re.MULTILINE)
        files = {"train.py": pieces[0]} if pieces[0].strip() else {}
        files.update(zip(pieces[1::2], pieces[2::2], strict=True))
        found.append(Script(name, dict(word.split("=", 1) for word in shlex.split(options)), files))
    return found


def parametrized(folder: str) -> pytest.MarkDecorator:
    found = scripts(folder)
    return pytest.mark.parametrize("script", found, ids=[script.name.replace(" ", "_") for script in found])
