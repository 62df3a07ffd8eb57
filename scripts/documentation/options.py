"""The options of verbs, and the verbs, as argparse has them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from scripts.documentation.tables import code, table

from worldsize.cli.main import ALIASES, VERBS, build_parser

COMMANDS = Path(__file__).resolve().parents[2] / "docs" / "reference" / "commands"
_EVERYWHERE = ("-h", "-v")


@cache
def parsers() -> dict[str, argparse.ArgumentParser]:
    """The parsers of all verbs; that of an action of a verb is under two words: "env list"."""
    found = {}
    for verb, parser in _subparsers(build_parser(list(VERBS))):
        found[verb] = parser
        found.update(("%s %s" % (verb, action), inner) for action, inner in _subparsers(parser))
    return found


def _subparsers(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            seen = set()
            for name, inner in action.choices.items():
                if id(inner) not in seen:
                    seen.add(id(inner))
                    yield name, inner


def option_tables(verb: str) -> str:
    """Return the usage of a verb and a table of its options; of a verb with actions, those of each action."""
    own = [parser for name, parser in parsers().items() if name == verb or name.startswith(verb + " ")]
    return "\n\n".join(_of_parser(parser) for parser in own if not any(_subparsers(parser)))


def _of_parser(parser: argparse.ArgumentParser) -> str:
    parts = ["```text\n%s\n```" % _usage(parser)]
    rows = [row for action in parser._actions for row in _row(action)]
    if rows:
        parts.append(table(("option", ""), rows))
    return "\n\n".join(parts)


def _usage(parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    usage = re.sub(r" \[-h\]| \[-v\]", "", usage)
    lines, line = [], ""
    for word in re.findall(r"\[[^\]]*(?:\[[^\]]*\][^\]]*)*\]\S*|\S+", usage):
        if line and len(line) + len(word) > 100:
            lines.append(line)
            line = "   "
        line += (" " if line.strip() else "") + word
    return "\n".join([*lines, line])


def _row(action: argparse.Action) -> Iterator[tuple[str, str]]:
    """Nothing for an option that all verbs have, or that is not shown."""
    if isinstance(action, argparse._SubParsersAction) or action.help == argparse.SUPPRESS:
        return
    if any(name in _EVERYWHERE for name in action.option_strings):
        return
    value = _value(action)
    given = "[=%s]" % value if action.nargs == "?" else " " + value if value else ""
    names = ", ".join(code(name + given) for name in action.option_strings)
    yield names or code(value), _help(action)


def _value(action: argparse.Action) -> str:
    if action.option_strings and action.nargs == 0:
        return ""
    if isinstance(action.metavar, tuple):
        return " ".join(action.metavar)
    if action.metavar:
        return action.metavar
    if action.choices:
        return "|".join(map(str, action.choices))
    return action.dest.upper()


def _help(action: argparse.Action) -> str:
    text = (action.help or "") % {**vars(action), "prog": "worldsize"}
    text = re.sub(r"(?<![\w`-])(--?[a-z][\w-]*)", r"`\1`", text)
    return text.replace("<", "&lt;")


def verb_rows(_: str) -> str:
    """Return the table of verbs, each with the page that describes it."""
    places = {}
    for page in sorted(COMMANDS.glob("*.md")):
        for heading in re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE):
            places[heading] = page.name
    rows = []
    for verb, row in VERBS.items():
        also = ", ".join(code(word) for word, (first, *rest) in ALIASES.items() if first == verb and not rest)
        rows.append(("[%s](%s#%s)" % (verb, places[verb], verb), row.help + ("; also %s" % also if also else "")))
    return table(("verb", "what it does"), rows)
