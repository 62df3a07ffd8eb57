"""Authentication and permissions: the caller, the user for which it acts, and the permissions of that user."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Sequence

from worldsize_hpcpack_simulator.options import Account, SimulatorOptions
from worldsize_hpcpack_simulator.wire import RequestRefused

_ACT_AS_OTHERS = ("Administrator", "JobAdministrator")
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="HPC Pack"'}
_END_JOBS = (*_ACT_AS_OTHERS, "JobOperator")


class Users:
    r"""The cluster's users, by `DOMAIN\user` or `user` in any letter case."""

    def __init__(self, options: SimulatorOptions) -> None:
        self._accounts: Sequence[Account] = (options.account, *options.others)
        self._anybody = not options.others

    def caller(self, authorization: str | None, as_user: str | None) -> Account:
        """Return the account of the user who sends a request with the header `authorization`, or of the user `as_user`
        for which the caller acts. Raise RequestRefused: 401 if credentials are missing or wrong, 403 if the caller may
        not use `x-ms-as-user`, or if that names no user."""
        account = self._authenticate(authorization or "")
        if as_user is None:
            return account
        if account.role not in _ACT_AS_OTHERS:
            raise RequestRefused(403, "Only administrators and job administrators may act as another user.")
        other = self._find_account(as_user)
        if other is None and self._anybody and as_user.strip():
            return Account(as_user.strip(), "")
        if other is None:
            raise RequestRefused(403, f"{as_user} is not a user of the cluster.")
        return other

    def is_password_of(self, name: str, password: str) -> bool:
        account = self._find_account(name)
        return account is not None and hmac.compare_digest(account.password.encode(), password.encode())

    def _authenticate(self, header: str) -> Account:
        scheme, _, code = header.partition(" ")
        try:
            name, colon, password = base64.b64decode(code.strip(), validate=True).decode("utf-8").partition(":")
        except ValueError:
            name = colon = password = ""
        account = self._find_account(name) if scheme.lower() == "basic" and colon else None
        if account is None or not self.is_password_of(name, password):
            raise RequestRefused(401, "The user name or the password is wrong.", _CHALLENGE)
        return account

    def _find_account(self, name: str) -> Account | None:
        """Return the account of the cluster with this user name; None if there is none. A name without a domain matches
        that user of any domain."""
        return next((account for account in self._accounts if is_same_user(account.name, name.strip())), None)


def check_may_change(user: Account, owner: str) -> None:
    """Raise RequestRefused (403) if the job belongs to another user (`owner`), and `user` has no role that may act as
    others."""
    if user.role not in _ACT_AS_OTHERS and not is_same_user(user.name, owner):
        raise RequestRefused(403, f"The job belongs to {owner}, and {user.name} may not change it.")


def check_may_end(user: Account, owner: str) -> None:
    """Raise RequestRefused (403) if the job belongs to another user (`owner`), and `user` is no operator or
    administrator, who may cancel, finish and requeue all jobs."""
    if user.role not in _END_JOBS and not is_same_user(user.name, owner):
        raise RequestRefused(403, f"The job belongs to {owner}, and {user.name} may not cancel, finish or requeue it.")


def check_administrator(user: Account) -> None:
    """Raise RequestRefused (403) if `user` is no administrator, who alone may change the cluster."""
    if user.role != "Administrator":
        raise RequestRefused(403, "Only administrators may do this.")


def is_same_user(one: str, other: str) -> bool:
    """Return whether two user names mean the same user of the cluster, in any letter case. The domain may be missing in
    either."""
    here, there = one.lower(), other.lower()
    bare = "\\" not in here or "\\" not in there
    return here == there or (bare and here.rpartition("\\")[2] == there.rpartition("\\")[2])
