"""The password of an account on the cluster: from the environment, a keyring, or the person at the terminal.

It is kept nowhere: no file, argument, message or record of ours ever holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from worldsize.errors import ConfigError

VARIABLE = "WORLDSIZE_HPCPACK_PASSWORD"


def password_of(url: str, user: str, environ: Mapping[str, str]) -> str:
    """ConfigError where nobody gives one."""
    found = environ.get(VARIABLE) or _from_keyring(url, user) or _asked(url, user)
    if found:
        return found
    raise ConfigError(
        "there is no password for %s at %s" % (user, url),
        VARIABLE,
        "set %s; or keep it in a keyring: keyring set %s '%s'; or start this at a terminal, and type it when asked"
        % (VARIABLE, service_of(url), user),
    )


def service_of(url: str) -> str:
    """Under which a keyring keeps it, with the user."""
    return "worldsize:%s" % url


def _from_keyring(url: str, user: str) -> str | None:
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(service_of(url), user)
    except (KeyringError, OSError, RuntimeError):  # locked, or a desktop's that is not there
        return None


@cache
def _asked(url: str, user: str) -> str | None:
    """Once in the life of this process."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    try:
        return getpass.getpass("password of %s at %s: " % (user, url)) or None
    except EOFError:
        return None
