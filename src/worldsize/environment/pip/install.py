"""The pip part of an environment: installed after conda's, never against it, and written down with hashes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from worldsize.environment.inspect.installed import Distribution, distributions, normalized
from worldsize.environment.pip.git_logins import has_login
from worldsize.environment.pip.requirement_lines import bare, lines_of
from worldsize.environment.pip.requirements import git_requirements, included, local_directories, project_name
from worldsize.environment.pip.uv import Uv, install
from worldsize.environment.sources import is_project
from worldsize.environment.workspace.builder import Work
from worldsize.errors import BuildError
from worldsize.jobspec.environment import EnvironmentSpec
from worldsize.jobspec.requirement import requirement
from worldsize.snapshot.object_store import digest_of
from worldsize.trust.directories import make_directories
from worldsize.trust.secrets import MASK, mask_text

_OPTION = re.compile(r"(-i|-f|--index-url|--extra-index-url|--find-links|--no-index|--pre|--no-binary|--only-binary)\b")
_WOULD = re.compile(r"^ ([+-]) ([^\s=]+)(?:==(\S+)(?: \(from (.+)\))?| @ (\S+))$", re.MULTILINE)
"""As uv says it: NAME==VERSION, with an address behind it or, for what it has not looked into yet, in its place."""
_DEEPEST = 20
_TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}


def requirements_of(spec: EnvironmentSpec, work: Work, uv: Uv) -> list[str]:
    """The lines of a requirements file for all that the spec wants of pip; those of a project by its uv.lock, or else
    by its pyproject.toml. The project itself is not installed: a run's code is its snapshot."""
    lines = list(spec.pip)
    if spec.file and is_project(spec.file):
        directory = os.path.dirname(spec.file)
        if os.path.exists(os.path.join(directory, "uv.lock")):
            lines += _exported(uv, directory)
        else:
            lines.append("-r " + os.path.join(directory, "pyproject.toml"))
    return lines


def _exported(uv: Uv, directory: str) -> list[str]:
    words = ("--frozen", "--no-emit-project", "--no-editable", "--no-dev", "--no-header", "--no-annotate")
    found = uv.export("reading uv.lock", directory, *words)
    return [requirement(line, directory) for line in found.replace("\\\n", " ").split("\n") if line.strip()]


def install_lines(work: Work, uv: Uv, lines: Sequence[str], before: Sequence[Distribution]) -> None:
    """Installs the lines, so that the distributions `before` stay as they are. BuildError where both cannot be."""
    constraints = None
    if before:
        constraints = written(work, "constraints.txt", pins(before))
    rest, options = _set_apart(work, lines)
    install(uv, work.prefix, rest, constraints, [*options, *_refreshed(lines, uv)])


def _set_apart(work: Work, lines: Sequence[str]) -> tuple[str, list[str]]:
    """A requirements file of the lines, and options of uv for those that include a project."""
    projects = [line for line in lines if _is_included_project(line)]
    rest = written(work, "requirements.txt", placed(work, [line for line in lines if line not in projects]))
    options = [word for line in projects for word in line.split(" ", 1)]
    return rest, [*options, *_overrides(work, [line.split(" ", 1)[1] for line in projects])]


def _overrides(work: Work, projects: Iterable[str]) -> list[str]:
    """uv's options that say once more what projects want of git with user and password: so that uv is given, and takes,
    addresses without these."""
    lines = []
    for path in projects:
        lines += [line for line in git_requirements(path) if has_login(line)]
    return ["--overrides", written(work, "overrides.txt", lines)] if lines else []


def _refreshed(lines: Iterable[str], uv: Uv) -> list[str]:
    """uv's options for source trees: else it takes what it built of them before, though they have changed. Offline it
    refuses such options."""
    if uv.offline:
        return []
    names = [project_name(directory) for directory in local_directories(lines)]
    words = [word for name in names if name for word in ("--refresh-package", name)]
    return ["--refresh"] if None in names else words


def _is_included_project(line: str) -> bool:
    """A pyproject.toml: on uv's command line it is one, and in a requirements file it is not."""
    include = included(line)
    return include is not None and is_project(include[1])


def placed(work: Work, lines: Iterable[str]) -> list[str]:
    """The lines, where they are read from another directory: a file that they include and that holds relative paths is
    replaced by a copy with absolute ones, since uv takes those for relative to where it is started."""
    found = []
    for line in lines:
        include = included(bare(line))
        if include is None or is_project(include[1]):
            found.append(line)
        else:
            found.append("%s %s" % (include[0], _placed_file(work, include[1])))
    return found


def _placed_file(work: Work, path: str) -> str:
    said = lines_of(path)
    absolute = [requirement(line, os.path.dirname(path)) for line in said]
    there = placed(work, absolute)
    moved = [new for old, new in zip(said, absolute, strict=True) if old != new and included(old) is None]
    if not moved and [included(line) for line in there] == [included(line) for line in absolute]:
        return path
    name = "included-%s-%s" % (digest_of(path.encode("utf-8", "surrogateescape"))[:8], os.path.basename(path))
    return written(work, name, there)


def install_layer(work: Work, uv: Uv, lines: Sequence[str], base_python: str, base: Sequence[Distribution]) -> None:
    """Installs what an existing environment lacks into a virtual environment on top of it. BuildError where the lines
    want another version of what it has."""
    constraints = written(work, "constraints.txt", pins(base))
    wanted, options = _set_apart(work, lines)
    words = (
        "pip",
        "install",
        "--python",
        base_python,
        "--dry-run",
        "--constraints",
        constraints,
        *options,
        "-r",
        wanted,
    )
    said = uv.told("looking at what is there", *words)
    found = [
        "%s @ %s" % (name, url or bare_url) if url or bare_url else "%s==%s" % (name, version)
        for sign, name, version, url, bare_url in _WOULD.findall(said)
        if sign == "+"
    ]
    if found:
        layer = written(work, "layer.txt", [*index_options(lines), *found])
        install(uv, work.prefix, layer, None, ["--no-deps", *_refreshed(lines, uv)])


def pins(found: Iterable[Distribution]) -> list[str]:
    return ["%s==%s" % (each.name, each.version) for each in found]


def written(work: Work, name: str, lines: Iterable[str]) -> str:
    """A file of ours in the prefix, for nobody else to read; until `remove_inputs`."""
    path = input_path(work, name)
    make_directories(os.path.dirname(path))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", **_TEXT) as file:
        file.write("".join(line + "\n" for line in lines))
    return path


def input_path(work: Work, name: str) -> str:
    return os.path.join(work.inputs, name)


def remove_inputs(work: Work) -> None:
    """Remove what `written` has written. OSError."""
    import shutil

    directory = work.inputs
    if os.path.isdir(directory):
        shutil.rmtree(directory)
        if not os.listdir(os.path.dirname(directory)):
            os.rmdir(os.path.dirname(directory))


def added(prefix: str, before: Sequence[Distribution]) -> list[Distribution]:
    """What pip installed: the distributions that were not there, or not like this."""
    known = {(each.path, each.version) for each in before}
    return [each for each in distributions(prefix) if (each.path, each.version) not in known]


def locked(work: Work, uv: Uv, found: Sequence[Distribution], options: Sequence[str]) -> list[dict[str, Any]]:
    """Rows of a lock: name, version, the digest of what was installed, where it is from, and the hashes of the files
    that the index has for it. Without an index, and for what came from elsewhere, without hashes."""
    wanted = [each for each in found if each.url is None]
    hashes: Mapping[str, list[str]] = {}
    if wanted:
        path = written(work, "pins.txt", [*options, *pins(wanted)])
        words = ("pip", "compile", "--no-deps", "--format", "pylock.toml", "--quiet")
        python = os.path.join(work.prefix, "bin", "python")
        try:
            hashes = _hashes(uv("looking up hashes", *words, "--python", python, path))
        except BuildError:
            work.step("no hashes: the index does not know all that is installed")
    return [
        {
            "name": each.name,
            "version": each.version,
            "digest": each.digest,
            "url": each.url,
            "hashes": hashes.get(normalized(each.name), []),
        }
        for each in found
    ]


def _hashes(text: str) -> dict[str, list[str]]:
    """From a pylock.toml (PEP 751): of every file that the index has for a package in its version."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    found = {}
    for package in tomllib.loads(text).get("packages", ()):
        files = [*package.get("wheels", ()), *([package["sdist"]] if "sdist" in package else ())]
        hashes = {"%s:%s" % item for each in files for item in each.get("hashes", {}).items()}
        found[normalized(package["name"])] = sorted(hashes)
    return found


def install_locked(work: Work, uv: Uv, lock: Mapping[str, Any]) -> None:
    """Exactly the packages of a lock; those with hashes only where they fit. BuildError."""
    rows = [row for row in lock["pip"] if not row.get("built")]
    if not rows:
        return
    lines = [" ".join([_pin(row), *("--hash=" + each for each in row["hashes"])]) for row in rows]
    path = written(work, "requirements.txt", [*usable(lock.get("options", ())), *lines])
    install(uv, work.prefix, path, None, ["--no-deps", *_refreshed(lines, uv)])


def _pin(row: Mapping[str, Any]) -> str:
    return "%s @ %s" % (row["name"], row["url"]) if row["url"] else "%s==%s" % (row["name"], row["version"])


def relocked(lock: Mapping[str, Any], found: Sequence[Distribution]) -> list[dict[str, Any]]:
    """The lock's rows, with the digests of what is here now. BuildError where packages or sources differ."""
    rows = {normalized(row["name"]): row for row in lock["pip"] if not row.get("built")}
    here = {normalized(each.name): each for each in found}
    wrong = [name for name in {*rows, *here} if name not in rows or name not in here]
    wrong += [name for name in rows if name in here and here[name].version != rows[name]["version"]]
    if wrong:
        raise BuildError("not what the lock says: %s" % ", ".join(sorted(set(wrong))), None, "was the index changed?")
    for name, row in rows.items():
        url = row.get("url") or ""
        exact = local_directories([url]) or re.search(r"\.whl(?:[?#].*)?$", url)  # what is built of others may differ
        if exact and row["digest"] not in (None, here[name].digest):
            what = "%s is not what was locked: the sources have changed since, in %s" % (row["name"], url)
            raise BuildError(what, None, "bring it back, or lock anew: worldsize env lock")
    return [{**row, "digest": here[name].digest} for name, row in rows.items()]


def index_options(lines: Iterable[str], depth: int = 0) -> list[str]:
    """The lines that say where packages are, those of included files too."""
    found: list[str] = []
    for line in lines:
        text = bare(line)
        include = included(text)
        if include and include[0] == "-r" and depth < _DEEPEST and not is_project(include[1]):
            directory = os.path.dirname(include[1])
            found += index_options([requirement(each, directory) for each in lines_of(include[1])], depth + 1)
        elif _OPTION.match(text):
            found.append(text)
    return list(dict.fromkeys(found))


def without_secrets(options: Iterable[str]) -> list[str]:
    """As they may be written down. Whoever builds from that needs the credentials in uv's own variables or files."""
    return [mask_text(each) for each in options]


def usable(options: Iterable[str]) -> list[str]:
    """Those that hold no masked secret."""
    return [each for each in options if MASK not in each]
