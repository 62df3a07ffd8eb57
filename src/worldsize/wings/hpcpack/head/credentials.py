"""The password of an account on the cluster: from the environment, a keyring, or the person at the terminal.

It is kept nowhere: no file, argument, message or record of worldsize ever holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache

from worldsize.common.atomic_files import printable_text
from worldsize.errors import ConfigError
from worldsize.trust.procfs import PASSWORD_VARIABLE, withheld_password

VARIABLE = PASSWORD_VARIABLE


def obtain_password(url: str, user: str, environ: Mapping[str, str]) -> str:
    """Return the password of an account. ConfigError where nobody gives one."""
    service = f"worldsize:{url}"  # under which a keyring keeps it, with the user
    found = withheld_password(environ) or _read_keyring(service, user) or _ask_at_terminal(url, user)
    if found:
        return found
    raise ConfigError(
        f"there is no password for {user} at {url}",
        VARIABLE,
        f"set {VARIABLE}; or keep it in a keyring: keyring set {service} '{user}'; "
        "or start this at a terminal, and type it when asked",
    )


def _read_keyring(service: str, user: str) -> str | None:
    """Return the password that a keyring has; None without keyring, or where it cannot be read."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(service, user)
    except (KeyringError, OSError, RuntimeError):  # locked, or a desktop's that is not there
        return None


@cache
def _ask_at_terminal(url: str, user: str) -> str | None:
    """Ask for the password, once in the life of this process; None without a terminal or an answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    try:
        return getpass.getpass(f"password of {printable_text(user)} at {printable_text(url)}: ") or None
    except EOFError:
        return None
