"""Who else can write: groups, by what the system says of its users."""

from __future__ import annotations

import grp
import os
import pwd

import pytest

from worldsize.trust import owners

ANNA, BEN = 61001, 61002


def user(name: str, uid: int, gid: int) -> pwd.struct_passwd:
    return pwd.struct_passwd((name, "x", uid, gid, "", "/home/" + name, "/bin/sh"))


@pytest.mark.parametrize(
    ("members", "bens_group", "private"),
    [([], BEN, True), (["anna"], BEN, True), (["ben"], BEN, False), ([], ANNA, False)],
    ids=["nobody", "anna", "ben by the list", "ben by his first group"],
)
def test_a_group_of_one(members: list[str], bens_group: int, private: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by review: a group's list does not name those whose first group it is."""
    anna, ben = user("anna", ANNA, ANNA), user("ben", BEN, bens_group)
    monkeypatch.setattr(os, "geteuid", lambda: ANNA)
    monkeypatch.setattr(pwd, "getpwuid", {ANNA: anna, BEN: ben}.__getitem__)
    monkeypatch.setattr(pwd, "getpwall", lambda: [anna, ben])
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("anna", "x", gid, members)))
    owners._is_first_group_of_one.cache_clear()
    try:
        assert owners.is_private_group(ANNA) is private
    finally:
        owners._is_first_group_of_one.cache_clear()
