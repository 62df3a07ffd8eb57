"""A shared directory's two names."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.common.path_mapping import is_mapped, to_client_path, to_node_path

MAPPED = (("/mnt/share/app", "/app"), ("/data", "/data"))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("/mnt/share/app", "/app"),
        ("/mnt/share/app/runs/1", "/app/runs/1"),
        ("/mnt/share/app/", "/app/"),
        ("/data/x", "/data/x"),
    ],
)
def test_both_ways(ours: str, theirs: str) -> None:
    assert to_node_path(ours, MAPPED) == theirs
    assert to_client_path(theirs, MAPPED) == ours
    assert is_mapped(ours, MAPPED)


@pytest.mark.parametrize("path", ["/mnt/share/apple", "/mnt/share", "/home/me", "app", "", "/database"])
def test_what_lies_elsewhere_keeps_its_name(path: str) -> None:
    assert to_node_path(path, MAPPED) == to_client_path(path, MAPPED) == path
    assert not is_mapped(path, MAPPED)


def test_a_path_that_this_machine_knows_is_not_taken_for_a_nodes() -> None:
    nested = (("/app/mine", "/app"),)
    assert to_client_path("/app/mine/x", nested) == "/app/mine/x"
    assert to_client_path("/app/x", nested) == "/app/mine/x"
    assert to_node_path("/app/mine/x", nested) == "/app/x"


def test_a_share_may_be_a_nodes_whole_tree() -> None:
    assert to_node_path("/mnt/x", (("/mnt", "/"),)) == "/x"
    assert to_node_path("/mnt", (("/mnt", "/"),)) == "/"
    assert to_client_path("/x", (("/mnt", "/"),)) == "/mnt/x"
    assert to_node_path("/x", (("/", "/host"),)) == "/host/x"


@given(st.text("ab/.", max_size=12))
def test_it_comes_back(rest: str) -> None:
    path = "/mnt/share/app/" + rest
    assert to_client_path(to_node_path(path, MAPPED), MAPPED) == path
