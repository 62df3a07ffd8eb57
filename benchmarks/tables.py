"""Put the tables of the last measurements into docs/explanation/performance/: python benchmarks/tables.py [--check].

Each block between `<!-- NAME -->` and `<!-- end NAME -->` is replaced by the tables of NAME.json, and the table of all
limits in index.md by those of the blocks. With --check nothing is written; the exit code says whether every block has
its place, every benchmark its block, and the table of limits the blocks' limits.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from harness import CHECKOUT, RESULTS, markdown

FOLDER = Path(CHECKOUT, "docs", "explanation", "performance")
PAGES = sorted(FOLDER.glob("*.md"))
_BLOCK = re.compile(r"<!-- (\w+) -->\n.*?<!-- end \1 -->", re.DOTALL)
PROVISIONAL = 2.5
INDEX = FOLDER / "index.md"
BEGIN, END = "<!-- limits -->\n", "<!-- end of limits -->\n"
_LIMITS = re.compile(r"\*\*Limits\*\*\n\n((?:\|.*\n)+)")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", default=RESULTS, help="where the JSON files lie (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    names = Counter(found[1] for page in PAGES for found in _BLOCK.finditer(page.read_text(encoding="utf-8")))
    wanted = {
        name[len("bench_") : -3] for name in os.listdir(os.path.dirname(__file__) or ".") if name.startswith("bench_")
    }
    if names != Counter(wanted):
        print(
            "docs/explanation/performance/ has blocks for %s, benchmarks are %s"
            % (sorted(names.elements()), sorted(wanted)),
            file=sys.stderr,
        )
        return 1
    if not options.check:
        for page in PAGES:
            text = page.read_text(encoding="utf-8")
            new = _BLOCK.sub(lambda found: _block(options.results, found[1], found[0]), text)
            page.write_text(new, encoding="utf-8")
    return _renew_limits(options.check)


def _renew_limits(check: bool) -> int:
    """Write the table of all limits; with `check`, exit code 1 where it is not that of the pages."""
    text = INDEX.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    new = head + BEGIN + limits_table() + END + rest.partition(END)[2]
    if check and new != text:
        print("docs/explanation/performance/index.md has not the limits of the pages: python benchmarks/tables.py")
        return 1
    if not check:
        INDEX.write_text(new, encoding="utf-8")
    return 0


def limits_table() -> str:
    """The limits of all blocks, each with the page of its block; NO leads to the reason."""
    rows = []
    for page in PAGES:
        for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
            for table in _LIMITS.finditer(block[0]):
                for line in table[1].splitlines()[2:]:
                    what, asked, measured, holds = (cell.strip() for cell in line.strip("| ").split(" | "))
                    shown = "[NO](%s#what-limits-it)" % page.name if holds == "NO" else holds
                    rows.append(("[%s](%s)" % (block[1].replace("_", " "), page.name), what, asked, measured, shown))
    held = sum(row[-1] == "yes" for row in rows)
    lines = [
        "| %s |" % " | ".join(row) for row in (("benchmark", "what", "asked", "measured", "holds"), ["---"] * 5, *rows)
    ]
    return "\n%d of %d limits hold. The word NO leads to the reason.\n\n%s\n\n" % (held, len(rows), "\n".join(lines))


def _block(results: str, name: str, former: str) -> str:
    """The block's new text; the former where there is no new measurement."""
    try:
        with open(os.path.join(results, name + ".json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return former
    parts = ["<!-- %s -->" % name, _said(found)]
    for table in found["tables"]:
        parts += ["**%s**" % table["title"], markdown(table["head"], table["rows"])]
    return "\n\n".join([*parts, "<!-- end %s -->" % name])


def _said(found: dict[str, Any]) -> str:
    text = "%s, %s; 1-minute load before: %.1f." % (found["machine"], found["when"], found["load_before"])
    if found["quick"] or found["load_before"] > PROVISIONAL:
        text += " **Provisional**: the machine was busy, or few rounds were run."
    return text


if __name__ == "__main__":
    sys.exit(main())
