"""Packages of others, as an installer would leave them: modules, and a folder of metadata with their entry points."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def write_package(target: Path, name: str, points: str, modules: Mapping[str, str] = {}, version: str = "1") -> None:
    """`points` is its entry_points.txt; `modules` are files by their names."""
    metadata = target / ("%s-%s.dist-info" % (name.replace("-", "_"), version))
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
    (metadata / "entry_points.txt").write_text(points)
    for file, text in modules.items():
        (target / file).write_text(text)


def install_project(project: Path, target: Path) -> None:
    """A project of plain Python, by its pyproject.toml; its package has the project's name. Programs are in `bin`."""
    told = _read_toml(project / "pyproject.toml")["project"]
    groups = told.get("entry-points", {}).items()
    lines = ["[%s]\n%s\n" % (group, "\n".join("%s = %s" % each for each in points.items())) for group, points in groups]
    write_package(target, told["name"], "".join(lines), version=told["version"])
    package = told["name"].replace("-", "_")
    shutil.copytree(project / package, target / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name, function in told.get("scripts", {}).items():
        _write_program(target, name, *function.split(":"))


def _write_program(target: Path, name: str, module: str, function: str) -> None:
    lines = (
        "#!%s" % sys.executable,
        "import sys",
        "sys.path.insert(0, %r)" % str(target),
        "from %s import %s" % (module, function),
        "sys.exit(%s())" % function,
    )
    program = target / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text("\n".join(lines) + "\n")
    program.chmod(0o755)


def _read_toml(file: Path) -> Mapping[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    return tomllib.loads(file.read_text(encoding="utf-8"))
