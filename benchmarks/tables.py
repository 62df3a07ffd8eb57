"""Put the tables of the last measurements into docs/explanation/performance/: python benchmarks/tables.py [--check].

Each block between `<!-- NAME -->` and `<!-- end NAME -->` is replaced by the tables of NAME.json. With --check nothing
is written; the exit code says whether every block has its place and every benchmark its block.
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

PAGES = sorted(Path(CHECKOUT, "docs", "explanation", "performance").glob("*.md"))
_BLOCK = re.compile(r"<!-- (\w+) -->\n.*?<!-- end \1 -->", re.DOTALL)
PROVISIONAL = 2.5


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
    return 0


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
