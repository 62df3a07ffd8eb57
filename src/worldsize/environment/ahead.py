"""What build steps would download, fetched ahead: for steps that are executed where nothing can be downloaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from worldsize.environment import pip, steps
from worldsize.environment.activation import expanded
from worldsize.environment.builder import Work
from worldsize.environment.fetching import download
from worldsize.environment.installed import distributions, normalized
from worldsize.environment.objects import digest_of
from worldsize.environment.uv import Uv, install
from worldsize.errors import BuildError
from worldsize.spec.environment import BuildStep, EnvironmentSpec
from worldsize.trust.directories import make_directories


def fetch_sources(work: Work, spec: EnvironmentSpec, environ: Mapping[str, str], cache: str) -> str:
    """A directory with the source archives of everything that steps compile; what those need beside is installed.

    Its place depends on its content alone, so that wheels are found again by whoever compiles the same. BuildError.
    """
    active = steps.activated(work, spec, environ)
    found: dict[str, str] = {}
    for step in spec.steps:
        if step.pip:
            found.update(_of_step(work, step, active, cache))
    key = digest_of("\n".join(sorted("%s %s" % item for item in found.items())).encode())[:20]
    directory = os.path.join(cache, "sources", key)
    make_directories(directory)
    for name, path in found.items():
        target = os.path.join(directory, name)
        if not os.path.exists(target):
            part = "%s.%s.part" % (target, os.urandom(4).hex())
            os.link(path, part)
            os.replace(part, target)
    return directory


def _of_step(work: Work, step: BuildStep, active: Mapping[str, str], cache: str) -> dict[str, str]:
    """Names and paths of a step's archives."""
    wanted = [expanded(each, active) for each in step.pip]
    names = {name for name in map(steps.requirement_name, wanted) if name}
    if not names:
        return {}
    own = {name: expanded(value, active) for name, value in step.variables.items()}
    packages = _resolved(work, step, wanted, names, {**active, **own})
    missing = names - {normalized(each["name"]) for each in packages if "sdist" in each}
    if missing:
        what = "the index has no source archive of %s" % ", ".join(sorted(missing))
        raise BuildError("%s: %s" % (step.title, what), None, "build where it can be downloaded: build_on: login")
    _install_needed(work, step, packages, names, active)
    archives = [each["sdist"] for each in packages if normalized(each["name"]) in names]
    return dict(download(work, each["url"], each["hashes"].get("sha256"), cache) for each in archives)


def _resolved(
    work: Work, step: BuildStep, wanted: list[str], names: set[str], environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    """The packages of a pylock.toml (PEP 751)."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    before = distributions(work.prefix)
    path = pip.written(work, "sources.txt", [*steps.index_lines(work), *wanted])
    constraints = pip.written(
        work, "constraints.txt", pip.pins(each for each in before if normalized(each.name) not in names)
    )
    words = [
        "pip",
        "compile",
        "--format",
        "pylock.toml",
        "--quiet",
        "--python",
        os.path.join(work.prefix, "bin", "python"),
    ]
    words += [word for name in sorted(names) for word in ("--no-binary", name)]
    uv = Uv(work, environ)
    text = uv("%s: looking up sources" % step.title, *words, *step.options, "--constraints", constraints, path)
    found: list[dict[str, Any]] = tomllib.loads(text).get("packages", [])
    return found


def _install_needed(
    work: Work, step: BuildStep, packages: list[dict[str, Any]], names: set[str], environ: Mapping[str, str]
) -> None:
    """What the compiled packages need when they are used."""
    there = {normalized(each.name) for each in distributions(work.prefix)}
    lines = [
        "%s==%s" % (each["name"], each["version"])
        for each in packages
        if normalized(each["name"]) not in names | there and "version" in each
    ]
    if lines:
        path = pip.written(work, "needed.txt", [*steps.index_lines(work), *lines])
        install(Uv(work, environ), work.prefix, path, None, ["--no-deps"], what=step.title)
