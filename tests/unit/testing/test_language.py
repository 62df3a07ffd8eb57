"""The language of docstrings, comments, error messages and documentation: who does what, in the words of the field."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from source_code import ROOT, SOURCE

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "evidence"),
    *sorted((ROOT / "examples").rglob("README.md")),
]

_VERBS = """
    Abort Accept Acquire Add Adopt Advance Agree All-reduce Allocate Allow Analyse Answer Append Apply Ask Assign
    Average Begin Bind Build Call Cancel Change Check Choose Claim Close Collect Combine Compare Compile Complete
    Compute Connect Continue Convert Copy Count Create Cut Decide Decorate Defer Delete Describe Destroy Determine
    Disable Discard Dispatch Display Divide Do Download Draw Drop Emit Empty Emulate Encrypt End Enter Exchange
    Execute Exit Export Fetch Fill Find Finish Flush Follow Forget Fork Format Forward Gather Give Group Handle Hold
    Ignore Implement Import Initialise Install Interrupt Join Judge Keep Kill Lend Let List Load Lock Log Look Make
    Mark Mask Measure Merge Mount Move Normalise Notify Observe Open Overwrite Pack Parse Pass Patch Perform Permit
    Place Plan Prepare Prevent Print Process Prompt Provide Put Query Queue Raise Read Reap Receive Record Redirect
    Reduce Refuse Register Release Remember Remount Remove Rename Render Renew Replace Report Request Requeue Require
    Reserve Reset Restart Restore Return Rewrite Run Save Scale Seed Send Separate Serve Set Show Shut Signal Skip
    Solve Sort Split Spread Start Step Stop Store Submit Sum Suppress Switch Take Terminate Test Train Try Turn Unpack
    Update Upload Use Verify Wait Welcome Wrap Write Yield
"""
VERBS = frozenset(_VERBS.split())
"""First words of a function's docstring: it does something to something."""

_VAGUE = """
    And As At Because Before Both But By During Everything For From How If In It Its Nobody None Nothing Of On Once One
    Or Since So Somebody Something That These They Those To Under Unless Until What Whatever When Where Whether Which
    While Who Whoever Whom Whose Why With Within Without
"""
VAGUE = frozenset(_VAGUE.split())
"""Words that no other docstring begins with: they name no subject."""

AVOIDED = re.compile(
    r"(?<![\w-])(?:whoever|whatever|whomever|somebody|someone|nobody|anybody|anyone|everybody|everyone|no one|we|us|our"
    r"|ours|ourselves|tells?|told|telling|hears?|heard|hearing|says?|said|saying|mend(?:s|ed|ing)?|besides?|so many"
    r"|so much|as long as|stands?|stood|lies?|lay|anew|whom|who asks|of theirs|of ours|for want of|lest|upon|hence"
    r"|thereby|errands?|as of|goes on|is to|are to|for ever)(?![\w'-])",
    re.IGNORECASE,
)
"""Words in whose place others are clear: user, process, reports, prints, fix, next to, N, until, is in, again."""


@pytest.fixture(scope="module")
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


def docstrings(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Yield the kind ("function" or "other"), the line and the text of each docstring, those of constants included."""
    for node in ast.walk(tree):
        is_function = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not is_property(node)
        body = getattr(node, "body", None)
        for number, statement in enumerate(body if isinstance(body, list) else ()):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield "function" if is_function and number == 0 else "other", statement.lineno, value.value.strip()


def is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = [ast.unparse(each).rpartition(".")[2] for each in node.decorator_list]
    return any(name in ("property", "cached_property", "setter") for name in names)


def error_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield from (
                (each.lineno, each.value)
                for each in ast.walk(node.exc)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            )


def avoided_words(text: str) -> list[str]:
    """Return the words to avoid, code and quotations aside."""
    prose = re.sub(r"``[^`]+``|`[^`]*`|\"[^\"\n]*\"", "`…`", text)
    return AVOIDED.findall(prose)


def page_prose(page: Path) -> list[str]:
    """Return the lines of a page, empty where they are in a code block, without the targets of links and comments."""
    blank = re.compile(r"^```.*?^```$|<!--.*?-->", re.MULTILINE | re.DOTALL)
    text = blank.sub(lambda found: "\n" * found[0].count("\n"), page.read_text(encoding="utf-8"))
    return re.sub(r"\]\([^)\n]*\)", "]", text).split("\n")


def first_word(text: str) -> str:
    return re.split(r"[\s,:;.]", text, maxsplit=1)[0]


def test_docstrings_begin_with_a_verb_or_a_subject(trees: dict[Path, ast.Module]) -> None:
    found, wrong = 0, []
    for path, tree in trees.items():
        for kind, line, text in docstrings(tree):
            found += 1
            word = first_word(text)
            if word not in VERBS if kind == "function" else word in VAGUE:
                wrong.append("%s:%d: %s" % (path.relative_to(ROOT), line, text.partition("\n")[0]))
    assert found > 7000, "the docstrings were found"
    assert wrong == []


def test_docstrings_use_the_words_of_the_field(trees: dict[Path, ast.Module]) -> None:
    wrong = [
        "%s:%d: %s" % (path.relative_to(ROOT), line, ", ".join(words))
        for path, tree in trees.items()
        for _, line, text in docstrings(tree)
        if (words := avoided_words(text))
    ]
    assert wrong == []


def test_comments_use_the_words_of_the_field(trees: dict[Path, ast.Module]) -> None:
    found, wrong = 0, []
    for path in trees:
        text = path.read_text(encoding="utf-8")
        for token in tokenize.generate_tokens(io.StringIO(text).readline) if "#" in text else ():
            if token.type == tokenize.COMMENT:
                found += 1
                if words := avoided_words(token.string):
                    wrong.append("%s:%d: %s" % (path.relative_to(ROOT), token.start[0], ", ".join(words)))
    assert found > 700, "the comments were found"
    assert wrong == []


def test_errors_use_the_words_of_the_field(trees: dict[Path, ast.Module]) -> None:
    found, wrong = 0, []
    for path, tree in trees.items():
        for line, text in error_texts(tree):
            found += 1
            if words := avoided_words(text):
                wrong.append("%s:%d: %s" % (path.relative_to(ROOT), line, ", ".join(words)))
    assert found > 1500, "the messages were found"
    assert wrong == []


def test_descriptions_of_json_use_the_words_of_the_field() -> None:
    texts = [
        (path.name, text)
        for path in sorted(SOURCE.rglob("*.json"))
        for text in re.findall(r'"description": "(.*)"', path.read_text(encoding="utf-8"))
    ]
    assert len(texts) > 500, "the descriptions were found"
    assert [each for each in texts if avoided_words(each[1])] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    lines = enumerate(page_prose(page), 1)
    assert [(number, words) for number, line in lines if (words := avoided_words(line))] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What the node says of itself", ["says"]),
        ('Return the path, which nobody else can change; `told` and "said" are names', ["nobody"]),
        ("Write N lines next to the file", []),
        ("so many of them as long as it lies there", ["so many", "as long as", "lies"]),
    ],
)
def test_words_that_are_found(text: str, words: list[str]) -> None:
    assert avoided_words(text) == words
