"""Draw the pictures of the documentation anew: `python -m scripts.documentation.pictures [NAME …]`.

The terminals show real runs, in a namespace with its own host name and home directory. The charts show the tables of
docs/explanation/performance/, and `life` is a run's life.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

from scripts.documentation.pictures.charts import CHARTS, draw_chart
from scripts.documentation.pictures.life import draw_life
from scripts.documentation.pictures.recording import record
from scripts.documentation.pictures.scenes import SCENES, Scene
from scripts.documentation.pictures.terminal_svg import draw_recording, draw_screen

ROOT = Path(__file__).resolve().parents[3]
PICTURES = ROOT / "docs" / "pictures"
HOME = Path("/home/anna")
HOST = "workstation"
_INSIDE = "WORLDSIZE_PICTURES_INSIDE"
"""The variable that is set where the host is called `HOST`, and /home is empty."""


def main() -> int:
    figures = {"life": draw_life, **{chart.name: partial(draw_chart, chart) for chart in CHARTS}}
    scenes = {scene.name: scene for scene in SCENES}
    names = [*figures, *scenes]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these: %s" % ", ".join(names))
    parser.add_argument("--to", metavar="DIR", type=Path, default=PICTURES, help="where to (default: docs/pictures)")
    options = parser.parse_args()
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error("there is no picture %s" % ", ".join(sorted(unknown)))
    for name in options.names or names:
        if name in scenes and os.environ.get(_INSIDE) != "1":
            _start_inside(name, options.to)
            continue
        picture = figures[name]() if name in figures else _draw(scenes[name])
        (options.to / (name + ".svg")).write_text(picture, encoding="utf-8")
        print("%s.svg" % name)
    return 0


def _start_inside(name: str, folder: Path) -> None:
    """Draw a terminal where the host is called `HOST`, and /home is empty. Raise CalledProcessError if that fails."""
    line = 'mount -t tmpfs tmpfs /home && hostname %s && exec "$@"' % HOST
    words = ["unshare", "--map-root-user", "--mount", "--uts", "sh", "-c", line, "sh"]
    again = [sys.executable, "-m", "scripts.documentation.pictures", name, "--to", str(folder.resolve())]
    subprocess.run([*words, *again], cwd=ROOT, env={**os.environ, _INSIDE: "1"}, check=True)


def _draw(scene: Scene) -> str:
    """Raise FileExistsError if there is a `HOME`: a scene never begins in an existing one."""
    folder = HOME / "project"
    HOME.mkdir()
    folder.mkdir()
    for name, text in scene.files.items():
        (folder / name).write_text(text)
    tools = HOME / "bin"
    tools.mkdir()
    shim = tools / "worldsize"
    shim.write_text('#!/bin/sh\nexec "%s" -m worldsize "$@"\n' % sys.executable)
    shim.chmod(0o755)
    environ = {
        "HOME": str(HOME),
        "PATH": os.pathsep.join((str(tools), os.path.dirname(sys.executable), "/usr/bin:/bin")),
        "PYTHONPATH": str(ROOT / "src"),
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "WORLDSIZE_SITE_CONFIG": str(HOME / "none.toml"),
    }
    for command in scene.hidden:
        subprocess.run(["bash", "-c", command], cwd=folder, env=environ, capture_output=True, check=False)
    frames = record(scene.commands, environ, str(folder), (scene.columns, scene.lines))
    if scene.film:
        return draw_recording(frames, scene.title, scene.columns)
    return draw_screen(frames[-1], scene.title, scene.columns)


if __name__ == "__main__":
    sys.exit(main())
