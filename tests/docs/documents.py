"""What the documentation's pages hold, and how their examples are run and compared.

Conventions, visible in the pages:
- A ```console block is run: lines that begin with `$ ` are typed (`> ` goes on), what follows is what they print, on
  stdout and stderr together. `…` stands for anything within a line, alone on a line for any number of lines.
- A block whose first line is `# name.ext` is that file, beside which the commands run.
- In docs/reference/python.md, ```python blocks without a name are run in their order as one program; a ```text block
  after one is what it prints.
- Everything on a page happens in its order, in one directory that starts empty, with a home of its own. A page that
  trains an example finds `examples/` there.
- ```sh blocks are not run: they need a download, a cluster or a terminal.

Ranks print in any order, and how many are folded into one line depends on when they print: neighbouring log lines are
compared rank by rank. So are those of `exec`, whose nodes stand there with one number.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from driver import lend_bundle

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted(DOCS.rglob("*.md")) if page.parent.name != "evidence"),
    *sorted((ROOT / "examples").rglob("README.md")),
]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# ([\w./-]+\.(?:py|yml|toml|sh|txt|amlignore))\n")
_LOG_LINE = re.compile(r"(?:×(?P<all>\d+)|\[(?P<some>[\d,-]+)\] ×\d+|(?:\d+:)?(?P<one>\d+)): ?(?P<text>.*)")
_MARK = "\x1e"
_CORES = re.compile(r"^notice: \d+ ranks share this machine's \d+ cores?\n", re.MULTILINE)
_SHARED_MEMORY = re.compile(r"^notice: /dev/shm of \S+ has .*, and resources\.shm_size asks for .*\n", re.MULTILINE)
"""What depends on the memory of this machine."""

_EFFICIENCY = re.compile(r"^([\d.]+ of \d+ cores used; .*|\d+ s of \d+ s before .*)\n", re.MULTILINE)
"""What `worldsize run` prints after runs of a minute and longer, as these are on a busy machine."""

_SPARE = re.compile(r"^\S*\.spare\n", re.MULTILINE)
"""What `ls` may find in a run's directory for a moment, as docs/reference/run-directory.md says."""


class Block(NamedTuple):
    language: str
    text: str
    line: int

    @property
    def file_name(self) -> str | None:
        named = _NAMED.match(self.text) if self.language != "console" else None
        return named[1] if named else None


class Step(NamedTuple):
    """One typed command, or one file (`name`) to write, and what the page says is printed."""

    text: str
    printed: str
    line: int
    name: str | None = None


def find_page(name: str) -> Path:
    """The page of docs/ with this name, which no other page has; none of a cause."""
    (page,) = (page for page in PAGES if page.name == name and is_named_alone(page))
    return page


def is_named_alone(page: Path) -> bool:
    """Whether no other page has the name of the page: those of causes and of folders may."""
    return page.is_relative_to(DOCS) and not page.is_relative_to(DOCS / "causes") and page.name != "index.md"


def place_of(page: Path) -> str:
    """Where the page is in the checkout: the name of its test."""
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [Block(found[1], found[2], text.count("\n", 0, found.start()) + 1) for found in _FENCE.finditer(text)]


def prose(page: Path) -> str:
    """The page without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def steps(page: Path) -> list[Step]:
    found = []
    for block in blocks(page):
        if block.file_name:
            found.append(Step(block.text, "", block.line, block.file_name))
        elif block.language == "console":
            found += _typed(block)
    return found


def _typed(block: Block) -> list[Step]:
    found: list[Step] = []
    for number, line in enumerate(block.text.splitlines(), block.line + 1):
        if line.startswith("$ "):
            found.append(Step(line[2:], "", number))
        elif line.startswith("> ") and not found[-1].printed:
            found[-1] = found[-1]._replace(text=found[-1].text + "\n" + line[2:])
        else:
            found[-1] = found[-1]._replace(printed=found[-1].printed + line + "\n")
    return found


def environment(home: Path) -> dict[str, str]:
    """A shell's, with `worldsize` and `python` on its PATH and nothing of this user's runs and configuration."""
    tools = home / "bin"
    tools.mkdir(parents=True)
    shim = tools / "worldsize"
    shim.write_text('#!/bin/sh\nexec "%s" -m worldsize "$@"\n' % sys.executable)
    shim.chmod(0o755)
    lend_bundle(str(home / ".worldsize"))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("WORLDSIZE_", "XDG_", "VIRTUAL_"))
    }
    return {
        **kept,
        "HOME": str(home),
        "PATH": os.pathsep.join((str(tools), os.path.dirname(sys.executable), kept["PATH"])),
        "PYTHONPATH": str(ROOT / "src"),
        "WORLDSIZE_SITE_CONFIG": str(home / "no-site.toml"),
    }


def run_steps(todo: list[Step], folder: Path, environ: dict[str, str], timeout: float = 60) -> list[str]:
    """What each step printed. One shell does all of them, so that `$?` and variables go from one to the next."""
    lines = ["exec 2>&1", "mark() { local code=$?; printf '%s%%s\\n' \"$1\"; return $code; }" % _MARK]
    for number, step in enumerate(todo):
        if step.name:
            write = "mkdir -p \"$(dirname '%s')\" && cat > '%s' <<'END_OF_FILE'\n%sEND_OF_FILE" % (
                step.name,
                step.name,
                step.text,
            )
            lines.append(write)
        else:
            lines.append(step.text)
        lines.append("mark %d" % number)
    with subprocess.Popen(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
    ) as shell:  # fmt: skip
        try:
            out, _ = shell.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGTERM)  # what a page has left in the background ends too
            raise
    printed = re.split("%s\\d+\n" % _MARK, out)
    assert len(printed) == len(todo) + 1, "the shell ended early:\n" + out
    return printed[:-1]


def matches(expected: str, actual: str) -> bool:
    """Whether `actual` is what the page says, ranks in any order."""
    for occasional in (_CORES, _SHARED_MEMORY, _EFFICIENCY, _SPARE):
        actual = occasional.sub("", actual)
    pattern = "".join(
        "(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in _by_rank(expected)
    )
    return re.fullmatch(pattern, "".join(line + "\n" for line in _by_rank(actual))) is not None


def _by_rank(text: str) -> list[str]:
    """The lines, where each run of neighbouring log lines is unfolded and sorted by rank."""
    out: list[str] = []
    said: dict[int, list[str]] = {}
    for line in [*text.splitlines(), ""]:
        log = _LOG_LINE.fullmatch(line)
        if log:
            for rank in _ranks(log):
                said.setdefault(rank, []).append("rank %d: %s" % (rank, log["text"]))
            continue
        for rank in sorted(said):
            out += said[rank]
        said = {}
        out.append(line)
    return out[:-1]


def _ranks(log: re.Match[str]) -> list[int]:
    if log["all"]:
        return list(range(int(log["all"])))
    ranks: list[int] = []
    for part in (log["some"] or log["one"]).split(","):
        first, _, last = part.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks
