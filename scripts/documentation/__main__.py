"""Write the blocks of the documentation that are made from the code anew: `python -m scripts.documentation`.

A page has a block between `<!-- from the code: KIND WORDS -->` and `<!-- end -->`. With --check, nothing is written,
and the exit code is 1 if a block is out of date.
"""

from __future__ import annotations

import argparse
import sys

from scripts.documentation.blocks import PAGES, ROOT, with_current_blocks


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    old = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        new = with_current_blocks(text)
        if new != text:
            old.append(page.relative_to(ROOT))
            if not options.check:
                page.write_text(new, encoding="utf-8")
    for place in old:
        print("%s %s" % (place, "is out of date: make docs-reference" if options.check else "is written anew"))
    return 1 if old and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
