"""The pictures of benchmarks in the documentation, each drawn from a result that a command has measured.

A page shows the command, and below it the picture. `docs/bench/NAME.json` is the result, `docs/pictures/NAME.svg` what
is drawn of it.

    python scripts/draw_benchmarks.py                   draw all
    python scripts/draw_benchmarks.py --measure NAME    run the command again, keep its result, and draw
    python scripts/draw_benchmarks.py --check           exit with 1 where one is not that of its result and page

Each picture ends with a digest of the charts in it, which is computed without matplotlib; where matplotlib has the
version that drew it, every byte is compared.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
COMMANDS = {
    "digits": "worldsize bench examples/digits/job.yml -w 1x1,1x2,2x2",
}
"""By the name of the result and of the picture, the command as the page shows it."""
NEAR = 12
"""Lines between a command and its picture, at most."""
_MARK = re.compile(r"<!-- matplotlib (\S+), charts ([0-9a-f]{64}) -->\n\Z")


def result_path(name: str) -> Path:
    return DOCS / "bench" / (name + ".json")


def picture_path(name: str) -> Path:
    return DOCS / "pictures" / (name + ".svg")


def read(name: str) -> Any:
    from worldsize.common.json_values import tuple_of
    from worldsize.wings.bench.result import BenchResult

    return tuple_of(BenchResult, json.loads(result_path(name).read_text(encoding="utf-8")))


def charts_of(result: Any) -> tuple[Any, ...]:
    from worldsize.wings.bench.scaling.presentation import charts
    from worldsize.wings.pictures import provider

    return charts(result, provider)


def digest(charts: tuple[Any, ...]) -> str:
    """Of all that they show; numbers as the picture has them, for whom the last digits are the same."""
    text = re.sub(r"\d+\.\d{6,}", lambda found: "%.6g" % float(found[0]), repr(charts))
    return hashlib.sha256(text.encode()).hexdigest()


def draw(name: str) -> str:
    """ConfigError without matplotlib."""
    from worldsize.wings.pictures.provider import draw_charts

    charts = charts_of(read(name))
    svg = draw_charts(charts).decode().rstrip("\n")
    return "%s\n<!-- matplotlib %s, charts %s -->\n" % (svg, matplotlib_version(), digest(charts))


def matplotlib_version() -> str:
    """ "" where it is missing."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("matplotlib")
    except PackageNotFoundError:
        return ""


def problems_of(name: str, command: str) -> list[str]:
    """Sentences of what is not as it should be, each with the command that mends it."""
    again = "python scripts/draw_benchmarks.py"
    if not result_path(name).exists():
        return ["docs/bench/%s.json is missing: %s --measure %s" % (name, again, name)]
    found = _result_problems(name, command, again)
    picture = picture_path(name).read_text(encoding="utf-8") if picture_path(name).exists() else ""
    mark = _MARK.search(picture)
    old = mark is None or mark[2] != digest(charts_of(read(name)))
    if old or (mark is not None and mark[1] == matplotlib_version() and picture != draw(name)):
        found.append("docs/pictures/%s.svg is not the picture of docs/bench/%s.json: %s" % (name, name, again))
    if not any(shows(page.read_text(encoding="utf-8"), name, command) for page in pages()):
        found.append("no page shows `%s` and below it pictures/%s.svg" % (command, name))
    return found


def _result_problems(name: str, command: str, again: str) -> list[str]:
    """Where the result is of another command than the one that is shown."""
    words = shlex.split(command)
    asked = words[words.index("-w") + 1].split(",")
    measured = [str(each.world) for each in read(name).measurements if not each.failure]
    if measured == asked:
        return []
    what = "docs/bench/%s.json has measured %s, and the command says %s" % (name, ",".join(measured), ",".join(asked))
    return ["%s: %s --measure %s" % (what, again, name)]


def pages() -> list[Path]:
    return sorted(DOCS.rglob("*.md"))


def shows(text: str, name: str, command: str) -> bool:
    """Whether the command stands there, as it is typed, and its picture in one of the next lines."""
    lines = text.splitlines()
    typed = (command, "$ " + command)
    return any(
        "pictures/%s.svg)" % name in "\n".join(lines[number : number + NEAR])
        for number, line in enumerate(lines)
        if line.strip() in typed
    )


def strangers() -> list[str]:
    """Results that no command has made."""
    found = sorted({*(DOCS / "bench").iterdir()} - set(map(result_path, COMMANDS)))
    return ["%s: scripts/draw_benchmarks.py has no command that makes it" % path.relative_to(ROOT) for path in found]


def measure(name: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        words = [*shlex.split(COMMANDS[name])[1:], "--to", directory + "/" + name]
        subprocess.run([sys.executable, "-m", "worldsize", *words], cwd=ROOT, check=True)
        shutil.copyfile(Path(directory, name, "result.json"), result_path(name))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--measure", choices=list(COMMANDS), action="append", default=[], metavar="NAME")
    options = parser.parse_args()
    for name in options.measure:
        measure(name)
    if not options.check:
        for name in COMMANDS:
            picture_path(name).parent.mkdir(exist_ok=True)
            picture_path(name).write_text(draw(name), encoding="utf-8")
        return 0
    problems = [problem for name, command in COMMANDS.items() for problem in problems_of(name, command)] + strangers()
    print(*problems, sep="\n" if problems else "", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
