"""Downloads that a native build starts from: checked, kept, and unpacked where the spec says."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from worldsize.environment.archives import is_archive, unpack_archive
from worldsize.environment.builder import Work
from worldsize.environment.keeping import bytes_text
from worldsize.environment.limits import Limit, limit_unpacking
from worldsize.environment.toolchain import has
from worldsize.environment.uris import Data, file_name
from worldsize.environment.web import shown
from worldsize.errors import BuildError, WorldsizeError
from worldsize.plan.files import read_json, write_json
from worldsize.spec.environment import Fetch
from worldsize.spec.sizes import bytes_of
from worldsize.trust.directories import make_directories, require_shared_place
from worldsize.trust.owners import is_ours

_WHEEL = ".whl"


def default_place(prefix: str) -> str:
    """Where a download lands that names no directory: in the environment itself, and so removed with it."""
    return os.path.join(prefix, "opt")


def fetch_all(work: Work, wanted: Sequence[Fetch], cache: str, environ: Mapping[str, str]) -> None:
    """Each download in its place, as far as `environ` has what it is for. BuildError names the one that cannot be had,
    or is not what its checksum says."""
    for each in wanted:
        if each.when and not has(each.when, environ):
            work.step("%s is left out: only with %s" % (shown(each.url), each.when))
            continue
        _place(work, each, download(work, each.url, each.sha256, cache, _most(each))[1], cache)


def download(work: Work, url: str, sha256: str | None, cache: str, max_size: int | None = None) -> tuple[str, str]:
    """The name and the path of a file, which is kept in `cache`. BuildError."""
    work.step("fetching %s" % shown(url))
    try:
        local = url.removeprefix("file://")
        found = Data(os.path.join(cache, "downloads"), _News(work)).fetch(local, sha256=sha256, max_size=max_size)
    except WorldsizeError as error:
        raise BuildError("fetch: %s" % error.what, error.where, error.hint) from None
    return file_name(url), found.path


class _News:
    def __init__(self, work: Work) -> None:
        self._work = work

    def notice(self, text: str) -> None:
        self._work.step(text)

    def transfer(self, what: str, done: int, total: int) -> None:
        self._work.news("%s: %s%s" % (what, bytes_text(done), " of %s" % bytes_text(total) if total else ""))


def _place(work: Work, wanted: Fetch, path: str, cache: str) -> None:
    name, target = file_name(wanted.url), wanted.to or default_place(work.prefix)
    require_shared_place(target, make=False)
    os.makedirs(target, exist_ok=True)
    require_shared_place(target)
    mark = os.path.join(cache, "unpacked", "%s-%s.json" % (wanted.sha256[:16], os.path.basename(target)))
    known = (read_json(mark) or {}) if wanted.to else {}
    if known.get("target") == target and all(_is_ours(os.path.join(target, top)) for top in known["names"]):
        return
    if not (is_archive(name) or name.endswith(_WHEEL)):
        _copy(path, os.path.join(target, name))
        names = [name]
    else:
        limit = limit_unpacking(os.path.getsize(path), True, _most(wanted), shown(wanted.url))
        names = _unpack(path, name, target, limit)
    if wanted.to:
        make_directories(os.path.dirname(mark))
        write_json(mark, {"target": target, "names": names})


def _is_ours(path: str) -> bool:
    """Whether it is there still: where others may make files, one of theirs may have its name."""
    try:
        return is_ours(os.lstat(path))
    except OSError:
        return False


def _most(wanted: Fetch) -> int | None:
    return bytes_of(wanted.max_size) if wanted.max_size else None


def _unpack(path: str, name: str, target: str, limit: Limit) -> list[str]:
    """The names that the archive has put into `target`. Nothing of the same name may be there already."""
    aside = os.path.join(target, ".worldsize-%s" % os.urandom(6).hex())
    try:
        called = name.removesuffix(_WHEEL) + ".zip" if name.endswith(_WHEEL) else name
        unpack_archive(path, called, aside, name, limit)
        names = sorted(os.listdir(aside))
        there = [each for each in names if os.path.lexists(os.path.join(target, each))]
        if there:
            what = "%s is there already, and is not what %s holds" % (os.path.join(target, there[0]), name)
            raise BuildError("fetch: %s" % what, None, "move it away, or name another directory with to:")
        for each in names:
            os.rename(os.path.join(aside, each), os.path.join(target, each))
        return names
    finally:
        import shutil

        shutil.rmtree(aside, ignore_errors=True)


def _copy(path: str, target: str) -> None:
    import shutil

    part = "%s.%s.part" % (target, os.urandom(4).hex())
    shutil.copyfile(path, part)
    os.replace(part, target)
