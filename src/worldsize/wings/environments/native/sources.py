"""Downloads of native builds, which are verified, kept, and unpacked in the place that the spec names. The sources of
build steps are fetched in advance for steps that run on nodes that cannot download."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import ModuleType

from worldsize.common.atomic_files import read_json, write_json
from worldsize.common.digests import digest_of
from worldsize.common.named_tuple import Any
from worldsize.environment.activation import expand_variables
from worldsize.errors import BuildError, WorldsizeError
from worldsize.jobspec.environment import BuildStep, EnvironmentSpec, FetchStep
from worldsize.jobspec.sizes import bytes_of
from worldsize.registry import load_module
from worldsize.trust.directories import make_directories, require_shared_directory
from worldsize.trust.owners import is_ours
from worldsize.wings.environments.inspect.installed import installed_distributions, normalized_name
from worldsize.wings.environments.inspect.machine import is_condition_met
from worldsize.wings.environments.native import steps
from worldsize.wings.environments.pip.install import pins, write_input
from worldsize.wings.environments.pip.requirements import locked_packages
from worldsize.wings.environments.pip.uv import Uv, install
from worldsize.wings.environments.workspace.builder import Build

_WHEEL = ".whl"


def _downloader(module: str) -> ModuleType:
    """Return the module `module` of the wing `staging`, which downloads and unpacks. Raise ConfigError if this
    installation lacks it."""
    return load_module("wings.staging." + module, "downloading the sources of an environment")


def fetch_sources(work: Build, spec: EnvironmentSpec, environ: Mapping[str, str], cache: str) -> str:
    """Return a directory with the source archives of all packages that the build steps compile, and install the other
    packages that these need. The directory's path depends on its content alone, so that a later build of the same
    sources finds the wheels again. Raise BuildError."""
    active = steps.activated_environ(work, spec, environ)
    found: dict[str, str] = {}
    for step in spec.steps:
        found.update(_fetch_step_archives(work, step, active, cache))
    key = digest_of("\n".join(sorted("{} {}".format(*item) for item in found.items())).encode())[:20]
    directory = os.path.join(cache, "sources", key)
    make_directories(directory)
    for name, path in found.items():
        with suppress(FileExistsError):
            os.link(path, os.path.join(directory, name))
    return directory


def _fetch_step_archives(work: Build, step: BuildStep, active: Mapping[str, str], cache: str) -> dict[str, str]:
    """Fetch the source archives of the packages that a build step compiles, and install the other packages that they
    need. Return a mapping of the archives' names to their paths. Raise BuildError if the index has no source archive of
    a package."""
    wanted = [expand_variables(each, active) for each in step.pip]
    names = {name for name in map(steps.requirement_name, wanted) if name}
    if not names:
        return {}
    own = {name: expand_variables(value, active) for name, value in step.variables.items()}
    packages = _resolve_packages(work, step, wanted, names, {**active, **own})
    missing = names - {normalized_name(each["name"]) for each in packages if "sdist" in each}
    if missing:
        what = f"the index has no source archive of {', '.join(sorted(missing))}"
        raise BuildError(f"{step.title}: {what}", None, "build where it can be downloaded: build_on: login")
    _install_dependencies(work, step, packages, names, active)
    archives = [each["sdist"] for each in packages if normalized_name(each["name"]) in names]
    return dict(download_to_cache(work, each["url"], each["hashes"].get("sha256"), cache) for each in archives)


def _resolve_packages(
    work: Build, step: BuildStep, wanted: list[str], names: set[str], environ: Mapping[str, str]
) -> list[dict[str, Any]]:
    before = installed_distributions(work.prefix)
    path = write_input(work, "sources.txt", [*steps.index_lines(work), *wanted])
    constraints = write_input(
        work, "constraints.txt", pins(each for each in before if normalized_name(each.name) not in names)
    )
    python = os.path.join(work.prefix, "bin", "python")
    words = ["pip", "compile", "--format", "pylock.toml", "--quiet", "--python", python]
    words += [word for name in sorted(names) for word in ("--no-binary", name)]
    uv = Uv(work, environ)
    text = uv(f"{step.title}: looking up sources", *words, *step.options, "--constraints", constraints, path)
    return locked_packages(text)


def _install_dependencies(
    work: Build, step: BuildStep, packages: list[dict[str, Any]], names: set[str], environ: Mapping[str, str]
) -> None:
    """Install those of `packages` that a build step's compiled packages (`names`) need, unless they are in the
    environment already."""
    there = {normalized_name(each.name) for each in installed_distributions(work.prefix)}
    lines = [
        f"{each['name']}=={each['version']}"
        for each in packages
        if normalized_name(each["name"]) not in names | there and "version" in each
    ]
    if lines:
        path = write_input(work, "needed.txt", [*steps.index_lines(work), *lines])
        install(Uv(work, environ), work.prefix, path, ["--no-deps"], what=step.title)


def fetch_downloads(work: Build, wanted: Sequence[FetchStep], cache: str, environ: Mapping[str, str]) -> None:
    """Download the files of the environment's `fetch:` entries, and place or unpack each in its directory. An entry
    with `when` is fetched only if this machine meets that condition. Raise BuildError with the address of a download
    that cannot be fetched, or does not match its checksum."""
    for each in wanted:
        if each.when and not is_condition_met(each.when, environ):
            work.report_step(f"{_display_url(each.url)} is skipped: only with {each.when}")
            continue
        _store_download(work, each, download_to_cache(work, each.url, each.sha256, cache, _max_size(each))[1], cache)


def download_to_cache(
    work: Build, url: str, sha256: str | None, cache: str, max_size: int | None = None
) -> tuple[str, str]:
    """Download the file at `url`, which is kept in `cache`. Return its name and its path. Raise BuildError."""
    work.report_step(f"fetching {_display_url(url)}")
    try:
        local = url.removeprefix("file://")
        found = (
            _downloader("fetch")
            .DataStore(os.path.join(cache, "downloads"), work)
            .fetch(local, sha256=sha256, max_size=max_size)
        )
    except WorldsizeError as error:
        raise BuildError(f"fetch: {error.what}", error.where, error.hint) from None
    return _downloader("fetch").file_name(url), found.path


def _display_url(url: str) -> str:
    """Return the address of a download for people to read, without parts that may be secret."""
    return str(_downloader("http").display_url(url))


def _store_download(work: Build, wanted: FetchStep, path: str, cache: str) -> None:
    """Place or unpack the downloaded file `path` in the directory that the spec names, else in the environment itself,
    with which it is removed. Do nothing if this user has stored the same download there before."""
    name, target = _downloader("fetch").file_name(wanted.url), wanted.to or os.path.join(work.prefix, "opt")
    require_shared_directory(target, make=False)
    os.makedirs(target, exist_ok=True)
    require_shared_directory(target)
    mark = os.path.join(cache, "unpacked", f"{wanted.sha256[:16]}-{os.path.basename(target)}.json")
    known = (read_json(mark) or {}) if wanted.to else {}
    if known.get("target") == target and all(_is_ours(os.path.join(target, top)) for top in known["names"]):
        return
    if not (_downloader("archives").is_archive(name) or name.endswith(_WHEEL)):
        _copy(path, os.path.join(target, name))
        names = [name]
    else:
        limit = _downloader("limits").unpack_limit(
            os.path.getsize(path), True, _max_size(wanted), _display_url(wanted.url)
        )
        names = _unpack(path, name, target, limit)
    if wanted.to:
        make_directories(os.path.dirname(mark))
        write_json(mark, {"target": target, "names": names})


def _is_ours(path: str) -> bool:
    """Return whether the file `path` exists and belongs to this user. In a directory where other users may create
    files, another user's file may have its name."""
    try:
        return is_ours(os.lstat(path))
    except OSError:
        return False


def _max_size(wanted: FetchStep) -> int | None:
    return bytes_of(wanted.max_size) if wanted.max_size else None


def _unpack(path: str, name: str, target: str, limit: object) -> list[str]:
    """Unpack the downloaded archive `path` into the directory `target`, and return the names that were created there.
    Raise BuildError if something with one of the same top-level names exists already."""
    aside = os.path.join(target, f".worldsize-{os.urandom(6).hex()}")
    try:
        called = name.removesuffix(_WHEEL) + ".zip" if name.endswith(_WHEEL) else name
        _downloader("archives").unpack_archive(path, called, aside, name, limit)
        names = sorted(os.listdir(aside))
        there = [each for each in names if os.path.lexists(os.path.join(target, each))]
        if there:
            what = f"{os.path.join(target, there[0])} exists already, and differs from the content of {name}"
            raise BuildError(f"fetch: {what}", None, "move it, or name another directory with to:")
        for each in names:
            os.rename(os.path.join(aside, each), os.path.join(target, each))
        return names
    finally:
        import shutil

        shutil.rmtree(aside, ignore_errors=True)


def _copy(path: str, target: str) -> None:
    import shutil

    part = f"{target}.{os.urandom(4).hex()}.part"
    shutil.copyfile(path, part)
    os.replace(part, target)
