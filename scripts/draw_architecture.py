"""Draw docs/pictures/architecture.svg: the packages of worldsize in their layers, and what imports what; and keep the
table of wings in docs/explanation/architecture/wings.md.

An arrow goes from a package to one that it imports, inside functions too; what follows from other arrows is left out.
The wings are one box for the arrows. A package of the core that knows wings by name has a dashed frame; pointed at, it
says which. The layers are import-linter's first contract.

    python scripts/draw_architecture.py            write the picture and the table
    python scripts/draw_architecture.py --check    exit with 1 where they are not those of the code
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

from wing_table import unwritten, with_wings

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "worldsize"
PICTURE = ROOT / "docs" / "pictures" / "architecture.svg"
PAGE = ROOT / "docs" / "explanation" / "architecture" / "wings.md"

WIDTH, HEIGHT, STEP, LETTER, GAP, MARGIN = 880, 34, 80, 8, 18, 24
"""Pixels: of the picture, of a box, from row to row, of a letter, between boxes, around everything."""

STYLE = """
text { font: 13px ui-monospace, monospace; text-anchor: middle; fill: #1f2328 }
rect { fill: #eef4ff; stroke: #4a6fa5; rx: 5 } .wing rect { fill: #fff6e5; stroke: #b7791f }
.frame rect { fill: none; stroke: #b7791f } .names rect { stroke: #b7791f; stroke-width: 2; stroke-dasharray: 5 3 }
path { fill: none; stroke: #7a8799; stroke-width: 1.3 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } rect { fill: #1c2a40; stroke: #7aa2dd } .wing rect { fill: #3a2c12; stroke: #d9a441 }
  .frame rect, .names rect { stroke: #d9a441 } path { stroke: #8b98a9 }
}
"""
WINGS = "wings"


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
    wings, core = rows[0], rows[1:]
    boxes, height = _place_wings(wings)
    frame = (MARGIN / 2, 6.0, WIDTH - MARGIN, height)
    at: dict[str, Box] = {WINGS: frame}
    for number, row in enumerate(core):
        at.update(_place_row(row, 6 + height + STEP - HEIGHT + number * STEP))
    arrows = {(_group(a), _group(b)) for a, b in imports if _group(a) != _group(b)}
    lines = [_arrow(at, pair) for pair in sorted(without_indirect(arrows, [[WINGS], *core]))]
    lines.append('<g class="frame">%s</g>' % _rect(*frame))
    lines += [_box(name, boxes.get(name) or at[name], imports, names) for row in rows for name in row]
    size = (WIDTH, 6 + height + STEP * len(core) + MARGIN / 2)
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d">' % (*size, WIDTH)
    marker = '<marker id="end" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    marker = "<defs>%s<path d='M0 0L8 4L0 8'/></marker></defs>" % marker
    return "\n".join([head, "<style>%s</style>" % STYLE, marker, *lines, "</svg>", ""])


Box = tuple[float, float, float, float]
"""Left, top, width, height."""


def _place_wings(wings: list[str]) -> tuple[dict[str, Box], float]:
    """The boxes of wings in lines that fill the width, and the height of the frame around them."""
    lines: list[list[str]] = [[]]
    for wing in wings:
        if _row_width([*lines[-1], wing]) > WIDTH - 2 * MARGIN:
            lines.append([])
        lines[-1].append(wing)
    boxes: dict[str, Box] = {}
    for number, line in enumerate(lines):
        boxes.update(_place_row(line, 16 + number * (HEIGHT + 10)))
    return boxes, 20 + len(lines) * (HEIGHT + 10) - 10


def _place_row(row: list[str], top: float) -> dict[str, Box]:
    """Boxes beside each other, in the middle of the picture."""
    left, boxes = (WIDTH - _row_width(row)) / 2, {}
    for name in row:
        boxes[name] = (left, top, _width(name), float(HEIGHT))
        left += _width(name) + GAP
    return boxes


def _row_width(row: list[str]) -> float:
    return sum(_width(name) + GAP for name in row) - GAP


def _width(name: str) -> float:
    return 20 + LETTER * len(_label(name))


def _group(package: str) -> str:
    return WINGS if package.startswith("wings.") else package


def _label(package: str) -> str:
    return package.split(".")[-1]


def _rect(left: float, top: float, width: float, height: float) -> str:
    return '<rect x="%.0f" y="%.0f" width="%.0f" height="%.0f"/>' % (left, top, width, height)


def _box(package: str, box: Box, imports: set[tuple[str, str]], names: set[tuple[str, str]]) -> str:
    told = "imports " + (", ".join(sorted(b for a, b in imports if a == package)) or "nothing of worldsize")
    named = sorted(_label(b) for a, b in names if a == package)
    if named:
        told += "; knows by name " + ", ".join(named)
    kind = "wing" if package.startswith("wings.") else "core names" if named else "core"
    left, top, width, height = box
    text = '<text x="%.0f" y="%.0f">%s</text>' % (left + width / 2, top + height / 2 + 5, _label(package))
    return '<g class="%s"><title>%s: %s</title>%s%s</g>' % (kind, package, told, _rect(*box), text)


def _arrow(at: dict[str, Box], pair: tuple[str, str]) -> str:
    (x, y, width, height), (to_x, to_y, to_width, _) = at[pair[0]], at[pair[1]]
    start, end = x + width / 2, to_x + to_width / 2
    curve = "<path marker-end='url(#end)' d='M%.0f %.0f C%.0f %.0f %.0f %.0f %.0f %.0f'/>"
    if y == to_y:  # neighbours of one layer: a bow below them
        bow = y + HEIGHT + 26
        return curve % (start, y + height, start, bow, end, bow, end, y + height)
    if pair[0] == WINGS and to_y - y - height > STEP:  # past the layers between them
        return curve % (x + width - 60, y + height, x + width - 60, to_y - STEP, end, to_y - HEIGHT, end, to_y)
    middle = (y + height + to_y) / 2
    return curve % (start, y + height, start, middle, end, middle, end, to_y)


def main() -> int:
    rows = read_layers()
    imports, names = read_imports({package for row in rows for package in row})
    made = {PICTURE: draw(rows, imports, names), PAGE: with_wings(PAGE.read_text(), SOURCE)}
    if "--check" not in sys.argv[1:]:
        for path, text in made.items():
            path.write_text(text)
        return 0
    wrong = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    for path in wrong:
        print("%s is not that of the code: python scripts/draw_architecture.py" % path.relative_to(ROOT))
    silent = unwritten(made[PAGE])
    for wing in silent:
        print("%s does not say what the wing %s is" % (PAGE.relative_to(ROOT), wing))
    return 1 if wrong or silent else 0


if __name__ == "__main__":
    sys.exit(main())
