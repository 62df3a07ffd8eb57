"""The password of an account on the cluster: from the environment, a keyring, or the person at the terminal.

It is kept nowhere: no file, argument, message or record of ours ever holds it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from functools import cache

from worldsize.common.atomic_files import printable_text
from worldsize.errors import ConfigError
from worldsize.trust.procfs import PASSWORD_VARIABLE, withdraw_variables

VARIABLE = PASSWORD_VARIABLE

_withdrawn_password: dict[str, str] = {}


def obtain_password(url: str, user: str, environ: Mapping[str, str]) -> str:
    """ConfigError where nobody gives one."""
    found = given_password(environ) or _read_keyring(url, user) or _ask_at_terminal(url, user)
    if found:
        return found
    raise ConfigError(
        f"there is no password for {user} at {url}",
        VARIABLE,
        f"set {VARIABLE}; or keep it in a keyring: keyring set {service_of(url)} '{user}'; "
        "or start this at a terminal, and type it when asked",
    )


def given_password(environ: Mapping[str, str]) -> str | None:
    """What the variable holds, or held before `withhold_password`."""
    return environ.get(VARIABLE) or _withdrawn_password.get(VARIABLE)


def withhold_password() -> None:
    """Takes the variable out of this process's environment, which all programs that it starts would inherit."""
    if VARIABLE in os.environ:
        _withdrawn_password[VARIABLE] = os.environ[VARIABLE]
        withdraw_variables([VARIABLE])


def with_password(environ: Mapping[str, str]) -> dict[str, str]:
    """For a shell of the user's own, where worldsize may be called again."""
    return {**environ, **_withdrawn_password}


def service_of(url: str) -> str:
    """Under which a keyring keeps it, with the user."""
    return f"worldsize:{url}"


def _read_keyring(url: str, user: str) -> str | None:
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
def _ask_at_terminal(url: str, user: str) -> str | None:
    """Once in the life of this process."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    import getpass

    try:
        return getpass.getpass(f"password of {printable_text(user)} at {printable_text(url)}: ") or None
    except EOFError:
        return None
