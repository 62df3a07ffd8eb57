"""Rows about this worldsize, its configuration and its home. All functions are pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from worldsize.common.numbers import size_text
from worldsize.extras import EXTRAS, install_hint
from worldsize.jobspec.config.config import Config
from worldsize.state.check_rows import CheckRow
from worldsize.wings.doctor.facts import DirectoryFacts, InstallationFacts
from worldsize.wings.doctor.subjects.rows import no, unknown, yes

HOME = "home.directory"
_LEAST_FREE = 1 << 30
_LAYERS = {"site": "the site's", "user": "yours", "project": "the project's"}


def installation_rows(found: InstallationFacts) -> Iterator[CheckRow]:
    yield yes("worldsize.version", "worldsize", f"{found.version}, {found.kind}: {found.place}")
    yield yes("worldsize.python", "its Python", f"{found.python} ({found.executable})")
    missing = {
        extra: lacking
        for extra, packages in EXTRAS.items()
        if (lacking := [name for name in packages if not found.packages.get(name)])
    }
    present = [extra for extra in EXTRAS if extra not in missing]
    if present:
        yield yes("worldsize.extras", "extras", ", ".join(present))
    if missing:
        value = "; ".join(f"{extra} ({', '.join(lacking)})" for extra, lacking in missing.items())
        yield no("worldsize.missing_extras", "extras", value, install_hint(",".join(missing)))


def configuration_rows(config: Config) -> Iterator[CheckRow]:
    files = "; ".join(f"{_LAYERS[layer]}: {path}" for path, layer in config.files.items())
    yield yes("config.files", "files in force", files or "none: the defaults")
    if config.defaults or config.forbidden:
        value = f"{len(config.defaults)} defaults, {len(config.forbidden)} forbidden: worldsize config show --origin"
        yield yes("config.site", "the site's rules", value)
    for notice in config.notices:
        found = re.fullmatch(r"(.*)[;.] if [^:]*: (worldsize config trust .*)", notice, re.DOTALL | re.IGNORECASE)
        what, fix = (found[1], found[2]) if found else (notice, "worldsize config trust PATH")
        if " is ignored: " in notice:
            yield no("config.ignored", "a file that does not count", what, fix)
        else:
            yield yes("config.untrusted", "a file in force", f"{what} ({fix})")


def home_rows(found: DirectoryFacts | None, path: str, seconds: float) -> Iterator[CheckRow]:
    """Yield the rows about the home. `found` is None if its file system did not answer in `seconds`."""
    what = "the home"
    if found is None:
        yield unknown(HOME, what, path, f"its file system gave no answer in {seconds:g} s")
        return
    if not found.writable:
        why = f": {found.links}" if found.links else ""
        fix = "set WORLDSIZE_HOME, or `home` in worldsize.toml, to a directory of yours"
        yield no(HOME, what, f"{path} cannot be written to{why}", fix, needed=True)
        return
    kind = f", {found.kind}" if found.kind else ""
    state = "" if found.exists else ", which the first run makes"
    free = f", {size_text(found.free)} free" if found.free is not None else ""
    if found.free is not None and found.free < _LEAST_FREE:
        yield no(HOME, what, f"{path}{kind}{free}", "remove runs: worldsize prune; or set another `home`")
    else:
        yield yes(HOME, what, f"{path}{kind}{free}{state}")
    if not found.exists:
        return
    if found.links:
        fix = "files of snapshots are copied for each run; name a home on another file system to share them"
        yield no("home.links", "hard links", f"cannot be made: {found.links}", fix)
    if found.locks:
        fix = "set envs_dir to a file system with locks (Lustre: mounted with -o flock); environments need them"
        yield no("home.locks", "locks", f"cannot be had: {found.locks}", fix)
    if not (found.links or found.locks):
        yield yes("home.links", "hard links, locks", "work")
