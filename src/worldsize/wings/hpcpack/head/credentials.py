"""The password of an account on the cluster, from the environment, a keyring, or the user at the terminal.

It is stored nowhere: no file, argument, message or record of worldsize ever contains it.
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
    """Return the password of the account `user` on the head node at `url`: from the environment, a keyring, or a prompt
    at the terminal, in this order. Raise ConfigError if no source has one."""
    service = f"worldsize:{url}"  # the keyring's key for the password, together with the user
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
    """Return the password of `user` for the keyring's entry `service`; None if there is no keyring, no password in it,
    or it cannot be read."""
    try:
        import keyring
        from keyring.errors import KeyringError
    except ImportError:
        return None
    try:
        return keyring.get_password(service, user)
    except (KeyringError, OSError, RuntimeError):  # locked, or the keyring of a desktop that does not run
        return None


@cache
def _ask_at_terminal(url: str, user: str) -> str | None:
    """Prompt the user for the password of the account `user` at `url`, once in the life of this process, and return it.
    None without a terminal or an answer."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    try:
        return getpass.getpass(f"password of {printable_text(user)} at {printable_text(url)}: ") or None
    except EOFError:
        return None
