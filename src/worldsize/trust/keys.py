"""A secret key of this user, shared by all processes of the user on all machines with the same home, and by no other
user."""

from __future__ import annotations

import os
from collections.abc import Mapping

from worldsize.common.atomic_files import open_regular_file
from worldsize.trust.owners import danger_of

_LENGTH = 32


def user_home(environ: Mapping[str, str]) -> str:
    """Return the user's home directory: HOME of `environ`, or `~` of this process if HOME is missing."""
    return environ.get("HOME") or os.path.expanduser("~")


def config_home(environ: Mapping[str, str]) -> str:
    """Return the path of this user's own configuration directory for worldsize; the directory may not exist."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(user_home(environ), ".config")
    return os.path.join(base, "worldsize")


def user_key(environ: Mapping[str, str]) -> bytes | None:
    """Return this user's secret key of 32 bytes, which is created at its first use in the user's configuration
    directory. None if no private file can be kept there."""
    path = os.path.join(config_home(environ), "key")
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError:
        return None
    try:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)
        own = f"{path}-{os.getpid()}-{os.urandom(4).hex()}"
        with open(os.open(own, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(os.urandom(_LENGTH))
        try:
            os.link(own, path)
        finally:
            os.unlink(own)
    except OSError:
        pass  # read-only, or another process was quicker
    try:
        return _read(path)
    except OSError:
        return None


def _read(path: str) -> bytes | None:
    with open(open_regular_file(path), "rb") as file:
        key = file.read(_LENGTH + 1)
        status = os.fstat(file.fileno())
    return key if len(key) == _LENGTH and status.st_mode & 0o077 == 0 and danger_of(status) is None else None
