"""The list in docs/explanation/warm-start.md is the list of the program."""

from __future__ import annotations

from pathlib import Path

from worldsize.wings.warm_start.safe_modules import SAFE, UNSAFE

PAGE = Path(__file__).parents[4] / "docs" / "explanation" / "warm-start.md"
BEGIN, END = "<!-- safe modules -->", "<!-- end of safe modules -->"
MODULES = {"scikit-learn": "sklearn", "Pillow": "PIL", "PyYAML": "yaml"}
"""What is imported of packages that people know by another name."""


def documented() -> list[str]:
    text = PAGE.read_text(encoding="utf-8").partition(BEGIN)[2].partition(END)[0]
    return [MODULES.get(name, name) for name in text.replace("\n", " ").replace(" ", "").split(",")]


def test_the_page_lists_the_safe_modules() -> None:
    assert sorted(documented()) == sorted(SAFE)


def test_what_is_excepted_belongs_to_a_safe_package() -> None:
    assert {name.partition(".")[0] for name in UNSAFE} <= SAFE
