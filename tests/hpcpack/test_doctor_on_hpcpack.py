"""The doctor on a client of a simulated cluster: what is known here, and with --net what the head node answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest
from driver import Result

from hpcpack.simulator import Simulator
from hpcpack.test_commands import Client


@pytest.fixture
def client(hpcpack: Simulator) -> Iterator[Client]:
    made = Client(hpcpack)
    yield made
    made.close()


def rows(done: Result) -> list[Mapping[str, str]]:
    """Those of the simulated cluster's compute."""
    found = json.loads(done.out)
    name = next(each["name"] for each in found["computes"] if each["type"] == "hpcpack")
    return [row for row in found["rows"] if row["id"] == "compute." + name]


def test_the_head_node_is_asked_only_with_net(client: Client, hpcpack: Simulator) -> None:
    with hpcpack.counting() as requests:
        known = rows(client("doctor", "-o", "json"))
    assert [row["verdict"] for row in known] == ["ok"] and not requests
    (asked,) = rows(client("doctor", "--net", "-o", "json"))
    assert asked["verdict"] == "ok" and asked["value"].endswith(" nodes usable"), asked
    password = client.environ["WORLDSIZE_HPCPACK_PASSWORD"]
    done = client("doctor", "--net", "-o", "json", WORLDSIZE_HPCPACK_PASSWORD="wrong-" + password)
    (refused,) = rows(done)
    assert refused["verdict"] == "bad" and done.code == 1 and password not in done.out, refused
