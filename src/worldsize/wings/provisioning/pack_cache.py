"""Packed environments on this machine: known by their names, made once for each content, described beside.

NAME-0123456789abcdef.tar.gz         beside the environment that was built here; of any other, in `directory`
NAME-0123456789abcdef.tar.gz.json    its digest and size, as long as the file is as it was
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from worldsize.common.atomic_files import open_regular_file, printable_text, read_object, write_json
from worldsize.common.file_lock import acquire
from worldsize.environment.existing import ExistingEnvironment
from worldsize.errors import NotFound, UsageError
from worldsize.service.request import EnvironmentPack
from worldsize.store.content_store import TransferProgress
from worldsize.trust.owners import is_ours
from worldsize.trust.projects import danger_of_file
from worldsize.wings.provisioning.agent.pack_format import ENVIRONMENT_MARK, is_sha256
from worldsize.wings.provisioning.agent.unpack import description_of
from worldsize.wings.provisioning.pack import pack

_CHUNK = 4 << 20


def environment_of_pack(path: str) -> ExistingEnvironment:
    """What a packed environment is once it is unpacked, under the name that stands for its place until then. NotFound,
    UsageError for a file that is none."""
    try:
        with open(open_regular_file(path), "rb") as file:
            value = description_of(file.read)
    except FileNotFoundError:
        raise NotFound(f"no such packed environment: {printable_text(path)}") from None
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", path) from None
    except ValueError as error:
        raise UsageError(f"is no packed environment: {error}", path, "worldsize env pack makes one") from None
    version = value.get("python")
    if not isinstance(version, list) or len(version) != 2 or not all(isinstance(each, int) for each in version):
        return ExistingEnvironment(ENVIRONMENT_MARK, str(value["kind"]), None)
    return ExistingEnvironment(ENVIRONMENT_MARK, str(value["kind"]), (version[0], version[1]))


def describe_pack(path: str) -> EnvironmentPack:
    """A packed environment's digest and size; read whole only where nobody has noted them. Raises OSError."""
    status = os.stat(path)
    note = _read_note(path)
    if (note.get("size"), note.get("mtime_ns")) == (status.st_size, status.st_mtime_ns) and is_sha256(
        note.get("digest")
    ):
        return EnvironmentPack(path, note["digest"], status.st_size, note.get("unpacked", 0), note.get("files", 0), ())
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while data := file.read(_CHUNK):
            digest.update(data)
    found = EnvironmentPack(path, digest.hexdigest(), status.st_size, 0, 0, ())
    _write_note(found)
    return found


def pack_once(found: ExistingEnvironment, path: str, news: TransferProgress) -> EnvironmentPack:
    """The environment packed as `path`, unless it is there; one packs, others wait. UsageError, StorageError."""
    if os.path.exists(path):
        return describe_pack(path)
    what = f"packing {os.path.basename(found.prefix)}"
    lock = acquire(path + ".lock", lambda _: news.transfer(f"another worldsize is {what}", 0, 0))
    assert lock is not None
    try:
        if os.path.exists(path):
            return describe_pack(path)
        news.notice(f"{what}, once, for the nodes' own disks")
        made = pack(found, path, lambda done, total: news.transfer(what, done, total))
        _write_note(made)
        for each in made.notices:
            news.notice("environment: " + each)
        return made
    finally:
        os.unlink(path + ".lock")
        lock.release()


def content_key(prefix: str) -> str:
    """Changes when a file below `prefix` is added, removed or written. Reads no file."""
    digest = hashlib.sha256(os.fsencode(prefix))
    for line in _statuses(prefix):
        digest.update(line)
    return digest.hexdigest()[:16]


def _statuses(directory: str) -> Iterator[bytes]:
    with os.scandir(directory) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        if entry.name == "__pycache__":
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _statuses(entry.path)
        else:
            status = entry.stat(follow_symlinks=False)
            yield b"%s %d %d\n" % (os.fsencode(entry.path), status.st_size, status.st_mtime_ns)


def _read_note(path: str) -> dict[str, Any]:
    """Nothing where somebody else could have written it: what nodes unpack, and execute, goes by it."""
    note = path + ".json"
    try:
        if not is_ours(os.lstat(note)) or danger_of_file(note, os.stat(note)):
            return {}
    except OSError:
        return {}
    return read_object(note)


def _write_note(found: EnvironmentPack) -> None:
    value = {**found._asdict(), "mtime_ns": os.stat(found.path).st_mtime_ns}
    try:
        write_json(found.path + ".json", value)
    except OSError:
        pass  # somebody else's directory: it is read once more
