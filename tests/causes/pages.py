"""The pages of docs/causes/: one of each cause, with its meaning, what to do, and the screens of its cases.

`python -m causes.pages [FOLDER …]` runs the cases of these folders, of all without one, and writes their pages anew."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from driver import Cli

from causes.case import Case
from causes.conditions import missing
from causes.screen import Screen, take_screen
from causes.tables.cases import CASES
from causes.tables.slurm_cases import SLURM_CASES
from worldsize.diagnose.observations import ENDS, EXCEPTION
from worldsize.diagnose.reasons import HANG, REASONS
from worldsize.diagnose.signatures import SIGNATURES, TABLES
from worldsize.diagnose.signatures.rehearsal import REHEARSAL
from worldsize.diagnose.signatures.signature import Signature

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "causes"
TITLES = {
    "gpus": "GPUs, driver and CUDA",
    "communication": "Communication between ranks",
    "launch": "Scheduler and launch",
    "machine": "Machine, memory and files",
    "programs": "The program and what it was given",
    "ends": "Ends that no line explains",
}
_ROLES = {"cascade": "It never is the cause where another one is known.", "confirmation": "It confirms a cause."}
_ROLES_OF_SOME = {
    "cascade": "Some of its lines never are the cause where another one is known.",
    "confirmation": "Some of its lines only confirm a cause.",
}
"""Of an entry that has rows of several roles."""
_SCREEN = re.compile(r"^\*\*(?P<title>[^*]+)\*\*[^\n]*\n\n```text\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)


class Entry(NamedTuple):
    """What the page of a cause says, but for its screens: of each row of its id."""

    meanings: tuple[str, ...]
    sources: tuple[str, ...]
    hints: tuple[str, ...]
    roles: frozenset[str]


def entries(folder: str) -> dict[str, Entry]:
    """The causes of a folder by their ids, in the order of the tables."""
    if folder == "ends":
        return {name: Entry((meaning,), (), (hint,), frozenset(("root",))) for name, meaning, hint in _ends()}
    rows = [*TABLES[folder], *(REHEARSAL if folder == "programs" else ())]
    found = {}
    for name in dict.fromkeys(row.id for row in rows):
        own = [row for row in rows if row.id == name]
        meanings, sources, hints = (
            tuple(dict.fromkeys(each))
            for each in zip(*((_meaning(row), row.source, row.hint) for row in own), strict=True)
        )
        found[name] = Entry(meanings, sources, hints, frozenset(row.role for row in own))
    return found


def _meaning(row: Signature) -> str:
    """What the row says, but for what the line holds; of one that names ranks, as a sentence about one."""
    whose = "a rank " if "(?P<whose>" in row.holds else ""
    return whose + re.sub(r"\{\w+\}", "…", row.meaning)


def _ends() -> Iterator[tuple[str, str, str]]:
    told = {row.id for row in SIGNATURES}
    for row in (EXCEPTION, *ENDS.values()):
        yield row.id, row.meaning, row.hint
    for reason in (HANG, *REASONS.values()):
        if reason.id not in told | set(ENDS):
            yield reason.id, reason.meaning, reason.hint
    yield "unknown", "no output and no observation shows the cause", ""


def page_texts(folder: str, screens: Mapping[str, str]) -> dict[str, str]:
    """The pages of a folder, by the names of their files. `screens`: by the titles of cases."""
    found = {"index.md": _index(folder)}
    for name, entry in entries(folder).items():
        lines = [f"# {name}", "", *_entry_lines(entry), ""]
        for case in (*CASES.get(folder, ()), *SLURM_CASES):
            if name == (case.section or case.id.removesuffix("-on-one-node")) and case.title in screens:
                simulated = f" (simulated: a script prints a message of {case.simulated})" if case.simulated else ""
                lines += [f"**{case.title}**{simulated}", "", "```text", screens[case.title].rstrip(), "```", ""]
        found[f"{name}.md"] = "\n".join(lines).rstrip() + "\n"
    return found


def _index(folder: str) -> str:
    lines = [
        f"# {TITLES[folder]}",
        "",
        "Each page describes a cause that [`worldsize why`](../../how-to/runs/failures.md#why-a-run-failed) names.",
        "The tests produce the screens.",
        "",
        "| cause | meaning |",
        "| --- | --- |",
    ]
    for name, entry in entries(folder).items():
        lines.append(f"| [{name}]({name}.md) | {'; or: '.join(entry.meanings).replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def overview() -> str:
    """The page that leads to those of all causes."""
    lines = [
        "# Causes of failures",
        "",
        "Each page describes one cause that [`worldsize why`](../how-to/runs/failures.md#why-a-run-failed) names:",
        "what it means, which program prints which line, what to do, and a screen that a test produced.",
        "[Cause analysis](../explanation/cause-analysis.md) explains how a cause is found.",
        "",
        "![worldsize why: the cause, the chain of what followed, and what to do](../pictures/why.svg)",
    ]
    for folder, title in TITLES.items():
        names = ", ".join(f"[{name}]({folder}/{name}.md)" for name in entries(folder))
        lines += ["", f"## [{title}]({folder}/index.md)", "", names]
    return "\n".join(lines) + "\n"


def _entry_lines(entry: Entry) -> Iterator[str]:
    yield "; or: ".join(each[0].upper() + each[1:] for each in entry.meanings) + "."
    if entry.sources:
        yield "Printed by: " + "; ".join(entry.sources) + "."
    for role in sorted(entry.roles - {"root"}):
        yield _ROLES[role] if "root" not in entry.roles else _ROLES_OF_SOME[role]
    hints = [hint for hint in entry.hints if hint]
    if hints:
        yield ""
        yield "What to do: " + "; or: ".join(hints) + "."


def documented_screens(folder: str) -> dict[str, str]:
    """The screens that stand on the pages of a folder, by the titles of their cases."""
    texts = [path.read_text() for path in sorted((FOLDER / folder).glob("*.md"))]
    return {each["title"]: each["text"] for text in texts for each in _SCREEN.finditer(text)}


def write_pages(folder: str, screens: Mapping[str, str]) -> None:
    """Write the pages of a folder with these screens, and remove those that it does not have any more."""
    texts = page_texts(folder, screens)
    (FOLDER / folder).mkdir(parents=True, exist_ok=True)
    for path in set((FOLDER / folder).glob("*.md")) - {FOLDER / folder / name for name in texts}:
        path.unlink()
    for name, text in texts.items():
        (FOLDER / folder / name).write_text(text)
    (FOLDER / "index.md").write_text(overview())


def take_screens(folder: str) -> None:
    """Run the cases of a folder, and write its pages. A case keeps its screen where something that it needs is missing
    here, or another cause is told than its own; so does one of `slurm_pages`."""
    screens = documented_screens(folder)
    for case in CASES.get(folder, ()):
        lacks = missing(case)
        print(f"{folder}: {case.title}" + (f" left as it is: {lacks}" if lacks else ""), flush=True)
        screen = None if lacks else screen_of(case)
        if screen is not None and is_told_rightly(case, folder, screen):
            screens[case.title] = screen.text
        elif screen is not None:
            print(f"{folder}: {case.title}: WRONG\n{screen.text}", flush=True)
    write_pages(folder, screens)


def is_told_rightly(case: Case, folder: str, screen: Screen) -> bool:
    """Whether the screen has the cause, the standing, the ranks and the page of the case."""
    cause = screen.data["cause"]
    place = f"causes/{folder}/{case.id.removesuffix('-on-one-node')}.md"
    has_place = cause and (case.section or cause["documentation"] == place)
    ranks = cause and (case.ranks is None or tuple(cause["ranks"]) == case.ranks)
    return bool(has_place and ranks and (cause["id"], cause["standing"]) == (case.id, case.standing))


def screen_of(case: Case) -> Screen:
    with tempfile.TemporaryDirectory() as folder:
        cli = Cli(folder)
        try:
            return take_screen(cli, case)
        finally:
            cli.close()


if __name__ == "__main__":
    for name in sys.argv[1:] or TITLES:
        take_screens(name)
