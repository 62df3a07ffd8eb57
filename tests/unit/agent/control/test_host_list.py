"""The list of all nodes: the same for every reader, short or compressed."""

from __future__ import annotations

import builtins
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.control.host_list import host_fields, hosts_of
from worldsize.plan.rank_variables import Host

HOSTS = st.builds(
    Host,
    st.text(max_size=70),
    st.integers(1, 512),
    st.ip_addresses().map(str),
    st.lists(st.integers(1, 65535)).map(tuple),
)


def sent(hosts: list[Host]) -> dict[str, object]:
    """The fields as they arrive."""
    return json.loads(json.dumps(host_fields(hosts)))


def cluster(nodes: int) -> list[Host]:
    return [Host("node%04d" % rank, 64) for rank in range(nodes)]


@given(st.lists(HOSTS, max_size=20), st.integers(1, 60))
def test_every_list_arrives_as_it_was(hosts: list[Host], times: int) -> None:
    assert hosts_of(sent(hosts * times)) == tuple(hosts * times)


def test_few_nodes_load_nothing_to_read_their_list() -> None:
    assert list(host_fields(cluster(256))) == ["hosts"]


def test_the_list_of_many_nodes_is_short() -> None:
    assert len(json.dumps(host_fields(cluster(1024)))) < 4 * 1024
    assert len(json.dumps(host_fields(cluster(10_000)))) < 40 * 1024


def test_a_python_without_zlib_sends_the_list_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "zlib":
            raise ImportError(name)
        return load(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    assert hosts_of(sent(cluster(1024))) == tuple(cluster(1024))
