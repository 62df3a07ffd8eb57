"""The pip part of an environment. It is installed after conda's part, never changes that part, and is recorded with
hashes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from worldsize.common.named_tuple import Any
from worldsize.errors import BuildError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.requirement import absolute_requirement
from worldsize.trust.directories import make_directories
from worldsize.trust.secrets import MASK
from worldsize.wings.environments.inspect.installed import (
    InstalledDistribution,
    installed_distributions,
    normalized_name,
)
from worldsize.wings.environments.pip.git_logins import has_login
from worldsize.wings.environments.pip.requirement_lines import list_lines, parse_include, write_lines
from worldsize.wings.environments.pip.requirements import (
    git_requirements,
    local_directories,
    locked_packages,
    project_name,
)
from worldsize.wings.environments.pip.uv import Uv, install
from worldsize.wings.environments.sources import is_project
from worldsize.wings.environments.workspace.builder import Build

_OPTION = re.compile(r"(-i|-f|--index-url|--extra-index-url|--find-links|--no-index|--pre|--no-binary|--only-binary)\b")
_PLANNED_CHANGE = re.compile(r"^ ([+-]) ([^\s=]+)(?:==(\S+)(?: \(from (.+)\))?| @ (\S+))$", re.MULTILINE)
"""Pattern of a planned change in uv's output: NAME==VERSION, followed by an address or, for a package that uv has not
examined yet, replaced by one."""


def requirements_of(spec: EnvironmentSpec, work: Build, uv: Uv) -> list[str]:
    """Return the lines of a requirements file for everything that the environment's `spec` wants of pip. The
    requirements of a project come from its uv.lock, or else from its pyproject.toml. The project itself is not
    installed, since a run's code is its snapshot."""
    lines = list(spec.pip)
    if spec.file and is_project(spec.file):
        directory = os.path.dirname(spec.file)
        if os.path.exists(os.path.join(directory, "uv.lock")):
            lines += _export_requirements(uv, directory)
        else:
            lines.append("-r " + os.path.join(directory, "pyproject.toml"))
    return lines


def _export_requirements(uv: Uv, directory: str) -> list[str]:
    words = ("--frozen", "--no-emit-project", "--no-editable", "--no-dev", "--no-header", "--no-annotate")
    found = uv.export("reading uv.lock", directory, *words)
    return [absolute_requirement(line, directory) for line in found.replace("\\\n", " ").split("\n") if line.strip()]


def install_lines(work: Build, uv: Uv, lines: Sequence[str], before: Sequence[InstalledDistribution]) -> None:
    """Install the requirements `lines` by uv into the environment that is being built, without changes to the
    distributions `before`. Raise BuildError if that is not possible."""
    rest, options = _separate_projects(work, lines)
    if before:
        options += ["--constraints", write_input(work, "constraints.txt", pins(before))]
    install(uv, work.prefix, rest, [*options, *_refresh_options(lines, uv)])


def _separate_projects(work: Build, lines: Sequence[str]) -> tuple[str, list[str]]:
    """Write the requirements `lines` that include no project to a requirements file. Return its path, and uv's options
    for the lines that include a project."""
    projects = [line for line in lines if _is_included_project(line)]
    rest = write_input(work, "requirements.txt", (line for line in lines if line not in projects))
    options = [word for line in projects for word in line.split(" ", 1)]
    return rest, [*options, *_write_overrides(work, [line.split(" ", 1)[1] for line in projects])]


def _write_overrides(work: Build, projects: Iterable[str]) -> list[str]:
    """Write those requirements of `projects` whose git addresses hold a user or password to a file of overrides, and
    return uv's options for that file. The credentials are stripped from the file later, so that uv uses the addresses
    without them. Empty if there are none."""
    lines = [line for path in projects for line in git_requirements(path) if has_login(line)]
    return ["--overrides", write_input(work, "overrides.txt", lines)] if lines else []


def _refresh_options(lines: Iterable[str], uv: Uv) -> list[str]:
    """Return uv's options that force it to rebuild the source trees in the requirements `lines`. Otherwise uv uses what
    it built of them before, even if they have changed. Empty in offline mode, in which uv refuses such options."""
    if uv.offline:
        return []
    names = [project_name(directory) for directory in local_directories(lines)]
    words = [word for name in names if name for word in ("--refresh-package", name)]
    return ["--refresh"] if None in names else words


def _is_included_project(line: str) -> bool:
    """Return whether a line of a requirements file includes a project (pyproject.toml). uv accepts a project on its
    command line, but not in a requirements file."""
    include = parse_include(line)
    return include is not None and is_project(include[1])


def install_layer(
    work: Build, uv: Uv, lines: Sequence[str], base_python: str, base: Sequence[InstalledDistribution]
) -> None:
    """Install the packages of the requirements `lines` that the existing environment of `base_python` lacks into a
    virtual environment on top of it. Raise BuildError if the lines want another version of a package in `base`."""
    constraints = write_input(work, "constraints.txt", pins(base))
    wanted, options = _separate_projects(work, lines)
    words = ["pip", "install", "--python", base_python, "--dry-run", "--constraints", constraints]
    said = uv.read_messages("reading what is installed", *words, *options, "-r", wanted)
    found = [
        f"{name} @ {url or bare_url}" if url or bare_url else f"{name}=={version}"
        for sign, name, version, url, bare_url in _PLANNED_CHANGE.findall(said)
        if sign == "+"
    ]
    if found:
        layer = write_input(work, "layer.txt", [*index_options(lines), *found])
        install(uv, work.prefix, layer, ["--no-deps", *_refresh_options(lines, uv)])


def pins(found: Iterable[InstalledDistribution]) -> list[str]:
    return [f"{each.name}=={each.version}" for each in found]


def write_input(work: Build, name: str, lines: Iterable[str]) -> str:
    """Write `lines` to a private input file `name` for uv in the prefix that is being built, and return its path. The
    file stays until `remove_inputs`."""
    path = input_path(work, name)
    make_directories(os.path.dirname(path))
    write_lines(path, lines)
    return path


def input_path(work: Build, name: str) -> str:
    return os.path.join(work.inputs, name)


def remove_inputs(work: Build) -> None:
    """Remove the files that `write_input` has written. Raise OSError."""
    import shutil

    directory = work.inputs
    if os.path.isdir(directory):
        shutil.rmtree(directory)
        if not os.listdir(os.path.dirname(directory)):
            os.rmdir(os.path.dirname(directory))


def added_distributions(prefix: str, before: Sequence[InstalledDistribution]) -> list[InstalledDistribution]:
    """Return the Python distributions in the environment `prefix` that pip has added: those that were not in `before`,
    or were there in another version."""
    known = {(each.path, each.version) for each in before}
    return [each for each in installed_distributions(prefix) if (each.path, each.version) not in known]


def make_lock_rows(
    work: Build, uv: Uv, found: Sequence[InstalledDistribution], options: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the lock's rows for the pip distributions `found`: name, version, the digest of the installed files, the
    origin, and the hashes of the files that the index has for it. There are no hashes if the index does not answer, or
    for packages that came from elsewhere."""
    wanted = [each for each in found if each.url is None]
    hashes: Mapping[str, list[str]] = {}
    if wanted:
        path = write_input(work, "pins.txt", [*options, *pins(wanted)])
        words = ("pip", "compile", "--no-deps", "--format", "pylock.toml", "--quiet")
        python = os.path.join(work.prefix, "bin", "python")
        try:
            hashes = _parse_hashes(uv("looking up hashes", *words, "--python", python, path))
        except BuildError:
            work.report_step("no hashes: the index does not have all installed packages")
    return [
        {
            "name": each.name,
            "version": each.version,
            "digest": each.digest,
            "url": each.url,
            "hashes": hashes.get(normalized_name(each.name), []),
        }
        for each in found
    ]


def _parse_hashes(text: str) -> dict[str, list[str]]:
    """Return the hashes in the text of a pylock.toml, as lists by package name: those of every file that the index has
    for the package in its version."""
    found = {}
    for package in locked_packages(text):
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        hashes = {"{}:{}".format(*item) for each in files for item in each.get("hashes", {}).items()}
        found[normalized_name(package["name"])] = sorted(hashes)
    return found


def install_locked(work: Build, uv: Uv, lock: Mapping[str, Any]) -> None:
    """Install exactly the pip packages of `lock` into the environment that is being built, except those that build
    steps compile. Packages with hashes are installed only if the hashes match. Raise BuildError."""
    rows = [row for row in lock["pip"] if not row.get("built")]
    if not rows:
        return
    lines = [" ".join([_pin(row), *("--hash=" + each for each in row["hashes"])]) for row in rows]
    options = [each for each in lock.get("options", ()) if MASK not in each]
    path = write_input(work, "requirements.txt", [*options, *lines])
    install(uv, work.prefix, path, ["--no-deps", *_refresh_options(lines, uv)])


def _pin(row: Mapping[str, Any]) -> str:
    return f"{row['name']} @ {row['url']}" if row["url"] else f"{row['name']}=={row['version']}"


def with_installed_digests(lock: Mapping[str, Any], found: Sequence[InstalledDistribution]) -> list[dict[str, Any]]:
    """Return the lock's rows of pip packages, with the digests of the installed distributions `found`. Raise BuildError
    if their names, versions or sources differ from the lock."""
    rows = {normalized_name(row["name"]): row for row in lock["pip"] if not row.get("built")}
    here = {normalized_name(each.name): each for each in found}
    wrong = [name for name in {*rows, *here} if name not in rows or name not in here]
    wrong += [name for name in rows if name in here and here[name].version != rows[name]["version"]]
    if wrong:
        raise BuildError(f"different from the lock: {', '.join(sorted(set(wrong)))}", None, "was the index changed?")
    for name, row in rows.items():
        url = row.get("url") or ""
        exact = local_directories([url]) or re.search(r"\.whl(?:[?#].*)?$", url)  # builds of other sources may differ
        if exact and row["digest"] not in (None, here[name].digest):
            what = f"{row['name']} differs from the lock: the sources have changed since, in {url}"
            raise BuildError(what, None, "restore it, or lock again: worldsize env lock")
    return [{**row, "digest": here[name].digest} for name, row in rows.items()]


def index_options(lines: Iterable[str]) -> list[str]:
    """Return those lines of a requirements list, and of the files that it includes, that name the sources of packages,
    such as `--index-url`. Duplicates are removed."""
    return list(dict.fromkeys(filter(_OPTION.match, list_lines(lines, ("-r",)))))
