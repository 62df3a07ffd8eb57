"""The documentation speaks of verbs, options and keys that exist, and of every one of them."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from documents import DOCS, PAGES, blocks, find_page, place_of, prose

from worldsize.cli.main import VERBS, build_parser
from worldsize.jobspec.config.compute_keys import COMPUTE_KEYS, keys_of_type
from worldsize.jobspec.config.files import TOP_KEYS
from worldsize.jobspec.distribution import DISTRIBUTIONS
from worldsize.jobspec.keys.environment import ENVIRONMENT
from worldsize.jobspec.keys.job import INPUT, JOB, OUTPUT
from worldsize.jobspec.keys.key import Keys
from worldsize.registry import load_module
from worldsize.state.records import Reason, RunState

pytestmark = pytest.mark.exhaustive

_CODE = re.compile(r"`([^`\n]+)`")
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
_COMMAND = re.compile(r"(?:^|[\s;&|(/])worldsize ((?:[a-z-]|VERB)[^#\n|;&)]*)")


def parsers() -> dict[str, argparse.ArgumentParser]:
    parser = build_parser(list(VERBS))
    table = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return dict(table.choices)


PARSERS = parsers()


def options_of(verb: str) -> set[str]:
    """Those of its actions too, where a verb has some."""
    return set(_options(PARSERS[verb]))


def _options(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _options(inner)


def commands(page: Path) -> Iterator[str]:
    """What follows `worldsize` wherever a page shows a command of ours."""
    texts = [block.text for block in blocks(page) if block.language in ("console", "sh")]
    texts += _CODE.findall(prose(page))
    for text in texts:
        lines = [line.partition(" #")[0] for line in text.split("\n")]
        yield from (found[1] for line in lines if " import " not in line for found in _COMMAND.finditer(line))


@pytest.mark.parametrize("page", PAGES, ids=place_of)
def test_shown_commands_exist(page: Path) -> None:
    wrong = []
    for command in commands(page):
        words = re.split(r"\s--(?:\s|$)", command)[0].split()
        verb = words[0]
        known = options_of(verb) if verb in PARSERS else {"--help", "--version"}
        if verb not in PARSERS and verb not in ("VERB", "…", "--help", "--version"):
            wrong.append("worldsize %s" % command)
        wrong += ["worldsize %s: %s" % (command, word) for word in words if _OPTION.match(word) and word not in known]
    assert not wrong


def sections() -> dict[str, str]:
    """Of the pages of commands, by their headings."""
    found = {}
    for page in sorted((DOCS / "reference" / "commands").glob("*.md")):
        parts = re.split(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        found.update(zip(parts[1::2], parts[2::2], strict=True))
    return found


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_and_option_is_documented(verb: str) -> None:
    section = sections()[verb]
    documented = set(_OPTION.findall(" ".join(_CODE.findall(section))))
    assert options_of(verb) - {"-h", "--help", "-v", "--verbose"} <= documented


def test_no_section_without_its_verb() -> None:
    assert set(sections()) - set(VERBS) == {"RUN", "All verbs"}


def key_names(keys: Keys, prefix: str = "") -> Iterator[str]:
    for name, key in keys.items():
        yield prefix + name
        if key.kind == "object" and name in ("resources", "limits"):
            yield from key_names(key.keys, prefix + name + ".")
        else:
            yield from key_names(load_module(key.home, name).KEYS if key.home else key.keys)


JOB_KEYS = {
    *key_names(JOB), *key_names(INPUT), *key_names(OUTPUT), *key_names(ENVIRONMENT),
    *(name for kind in DISTRIBUTIONS.values() for name in dict(kind.keys())), *DISTRIBUTIONS,
} - {"resources", "limits", "inputs", "outputs"}  # fmt: skip


@pytest.mark.parametrize("key", sorted(JOB_KEYS))
def test_every_job_key_is_documented(key: str) -> None:
    pages = sorted((DOCS / "reference" / "job-file").glob("*.md"))
    rows = [line for page in pages for line in prose(page).splitlines() if line.startswith("|")]
    assert any(key in _CODE.findall(row) for row in rows)


AZUREML = keys_of_type("azureml") or {}


@pytest.mark.parametrize("key", [*TOP_KEYS, *COMPUTE_KEYS, *AZUREML])
def test_every_configuration_key_is_documented(key: str) -> None:
    assert any("`%s`" % key in prose(find_page(name)) for name in ("configuration.md", "compute-types.md"))


@pytest.mark.parametrize(
    "word", [value for kind in (RunState, Reason) for value in vars(kind).values() if value in vars(kind)]
)
def test_every_state_and_reason_is_explained(word: str) -> None:
    rows = [line for line in prose(find_page("states.md")).splitlines() if line.startswith("| ")]
    assert any(row.startswith("| %s |" % word) for row in rows)
