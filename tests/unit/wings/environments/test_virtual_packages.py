"""Virtual packages of conda: as they are written, and those that every node has."""

from __future__ import annotations

import os

import pytest

from worldsize.errors import UsageError
from worldsize.wings.environments.inspect.machine import all_virtual_packages, parse_virtual_package


def test_virtual_packages_as_they_are_written() -> None:
    assert parse_virtual_package("__cuda=12.4") == ("__cuda", "12.4", "0")
    assert parse_virtual_package("__archspec = 1 = zen3") == ("__archspec", "1", "zen3")
    for wrong in ("cuda=12", "__cuda 12", "", "__cuda=1=2=3"):
        with pytest.raises(UsageError, match="is not a virtual package"):
            parse_virtual_package(wrong)


def test_what_every_node_has_is_there_though_nobody_said_it() -> None:
    found = {name: version for name, version, _ in all_virtual_packages(["__cuda=12.4", "__glibc=2.17"])}
    assert {"__unix", "__linux", "__archspec"} <= set(found)
    assert (found["__cuda"], found["__glibc"]) == ("12.4", "2.17")
    assert "__cuda" not in {name for name, _, _ in all_virtual_packages(["__glibc=2.17"])}
    assert os.uname().sysname == "Linux"
