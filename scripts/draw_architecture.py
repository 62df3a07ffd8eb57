"""Draw docs/architecture.svg: the packages of worldsize in their layers, and what imports what.

An arrow goes from a package to one that it imports, inside functions too; what follows from other arrows is left out. A
dashed arrow goes from a package of the core to a wing that it knows by name. The layers are import-linter's first
contract.

    python scripts/draw_architecture.py            write the picture
    python scripts/draw_architecture.py --check    exit with 1 where the picture is not that of the code
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "worldsize"
PICTURE = ROOT / "docs" / "architecture.svg"

HEIGHT, STEP, LETTER, GAP, MARGIN = 34, 86, 7.4, 18, 24
"""Pixels: of a box, from row to row, of a letter, between boxes, around everything."""

STYLE = """
text { font: 13px ui-monospace, monospace; text-anchor: middle; fill: #1f2328 }
rect { fill: #eef4ff; stroke: #4a6fa5; rx: 5 } .wing rect { fill: #fff6e5; stroke: #b7791f }
path { fill: none; stroke: #7a8799 } .name path { stroke: #b7791f; stroke-dasharray: 4 4 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } rect { fill: #1c2a40; stroke: #7aa2dd } .wing rect { fill: #3a2c12; stroke: #d9a441 }
  path { stroke: #8b98a9 } .name path { stroke: #d9a441 }
}
"""


def read_layers() -> list[list[str]]:
    """The names of packages, from the top layer to the lowest; wings, which are one layer, one by one."""
    text = (ROOT / "pyproject.toml").read_text()
    contract = re.search(r'type = "layers"\nlayers = \[\n(.*?)\n\]', text, re.DOTALL)
    assert contract is not None
    rows = [re.findall(r"worldsize\.(\w+)", line) for line in contract[1].splitlines()]
    wings = [each.name for each in sorted((SOURCE / "wings").iterdir()) if (each / "__init__.py").is_file()]
    rows = [["wings." + wing for wing in wings] if row == ["wings"] else row for row in rows]
    return [row for row in rows if row]


def package_of(module: str, packages: set[str]) -> str | None:
    """The package in the picture that a module, below `worldsize`, belongs to."""
    parts = module.split(".")
    name = ".".join(parts[:2]) if parts[0] == "wings" else parts[0]
    return name if name in packages else None


def read_imports(packages: set[str]) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
    """(pairs of packages of which the first imports the second, pairs of a package and a wing that it names)."""
    imports, names = set(), set()
    for path in sorted(SOURCE.rglob("*.py")):
        owner = package_of(".".join(path.relative_to(SOURCE).with_suffix("").parts), packages)
        if owner is None:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for module in _imported_modules(node):
                imports.add((owner, package_of(module, packages)))
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and not owner.startswith("wings."):
                named = re.match(r"(?:worldsize\.)?(wings\.\w+)[\w.]*$", node.value)
                if named is not None:
                    names.add((owner, package_of(named[1], packages)))
    return {pair for pair in imports if pair[1] not in (None, pair[0])}, {pair for pair in names if pair[1]}


def _imported_modules(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        found = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module is not None:
        found = [node.module + "." + alias.name for alias in node.names]
    else:
        return []
    return [name[len("worldsize.") :] for name in found if name.startswith("worldsize.")]


def without_indirect(imports: set[tuple[str, str]], rows: list[list[str]]) -> set[tuple[str, str]]:
    """The pairs that do not follow from others that lead from one layer to a lower one; those inside a layer stay."""
    layer = {package: number for number, row in enumerate(rows) for package in row}
    after: dict[str, set[str]] = {}
    for first, second in imports:
        if layer[first] < layer[second]:
            after.setdefault(first, set()).add(second)

    def reached(package: str) -> set[str]:
        return after.get(package, set()).union(*map(reached, after.get(package, ())))

    return {(a, b) for a, b in imports if not any(b in reached(c) for c in after.get(a, ()) if c != b)}


def draw(rows: list[list[str]], imports: set[tuple[str, str]], names: set[tuple[str, str]]) -> str:
    """The picture, as SVG."""
    widths = {package: 20 + LETTER * len(_label(package)) for row in rows for package in row}
    row_widths = [sum(widths[package] + GAP for package in row) - GAP for row in rows]
    width = max(row_widths) + 2 * MARGIN
    at = {}
    for number, row in enumerate(rows):
        left = (width - row_widths[number]) / 2
        for package in row:
            at[package] = (left, MARGIN + number * STEP)
            left += widths[package] + GAP
    lines = [_arrow(at, widths, pair, "") for pair in sorted(without_indirect(imports, rows))]
    lines += [_arrow(at, widths, pair, ' class="name"') for pair in sorted(names)]
    lines += [_box(package, *at[package], widths[package], imports) for row in rows for package in row]
    height = MARGIN * 2 + HEIGHT + STEP * (len(rows) - 1)
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d">' % (width, height, width)
    marker = '<marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    marker = "<defs>%s<path d='M0 0L8 4L0 8'/></marker></defs>" % marker
    return "\n".join([head, "<style>%s</style>" % STYLE, marker, *lines, "</svg>", ""])


def _label(package: str) -> str:
    return package.split(".")[-1]


def _box(package: str, left: float, top: float, width: float, imports: set[tuple[str, str]]) -> str:
    told = "imports " + (", ".join(sorted(b for a, b in imports if a == package)) or "nothing of worldsize")
    kind = "wing" if package.startswith("wings.") else "core"
    box = '<rect x="%.0f" y="%d" width="%.0f" height="%d"/>' % (left, top, width, HEIGHT)
    text = '<text x="%.0f" y="%d">%s</text>' % (left + width / 2, top + HEIGHT / 2 + 5, _label(package))
    return '<g class="%s"><title>%s: %s</title>%s%s</g>' % (kind, package, told, box, text)


def _arrow(at: dict[str, tuple[float, float]], widths: dict[str, float], pair: tuple[str, str], kind: str) -> str:
    (first, second), (x, y), (to_x, to_y) = pair, at[pair[0]], at[pair[1]]
    aside = 12 if kind else 0
    start, end = x + widths[first] / 2 + aside, to_x + widths[second] / 2 + aside
    if y == to_y:  # neighbours of one layer: a bow below them
        curve = "M%.0f %d C%.0f %d %.0f %d %.0f %d"
        bow = y + HEIGHT + 26
        return "<g%s><path marker-end='url(#end)' d='%s'/></g>" % (
            kind, curve % (start, y + HEIGHT, start, bow, end, bow, end, y + HEIGHT),
        )  # fmt: skip
    y, to_y = (y + HEIGHT, to_y) if y < to_y else (y, to_y + HEIGHT)
    middle = (y + to_y) / 2
    curve = "M%.0f %d C%.0f %d %.0f %d %.0f %d" % (start, y, start, middle, end, middle, end, to_y)
    return "<g%s><path marker-end='url(#end)' d='%s'/></g>" % (kind, curve)


def main() -> int:
    rows = read_layers()
    picture = draw(rows, *read_imports({package for row in rows for package in row}))
    if "--check" not in sys.argv[1:]:
        PICTURE.write_text(picture)
        return 0
    if PICTURE.exists() and PICTURE.read_text() == picture:
        return 0
    print("%s is not that of the code: python scripts/draw_architecture.py" % PICTURE.relative_to(ROOT))
    return 1


if __name__ == "__main__":
    sys.exit(main())
