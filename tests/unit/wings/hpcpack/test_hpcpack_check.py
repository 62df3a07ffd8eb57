"""`hpcpack check`: the rows of nodes, by what they said; and of a head node and a share, as far as they are reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from worldsize.compute.capabilities import ComputeNode, NodeEvent
from worldsize.compute.http.errors import WrongCertificate
from worldsize.errors import ConfigError, StorageError, SubmitAgain, SubmitRejected, WorldsizeError
from worldsize.jobspec.config.config import ComputeSettings
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING, CheckRow
from worldsize.wings.hpcpack import cluster_check
from worldsize.wings.hpcpack.check_rows import node_rows
from worldsize.wings.hpcpack.head.errors import LoginRefused
from worldsize.wings.hpcpack.share_check import NodeCheck, _ProbedNode
from worldsize.wings.hpcpack.share_features import ShareFeatures

TORCH = {"version": "2.4.0", "cuda": "12.4", "gpus": 2}
FINE = NodeCheck("cn01", "", 0.04, "", "3.11.2", "", ("H100", "H100"), 0, "550.54.15", TORCH)
BARE = FINE._replace(gpus=(), driver="", torch={**TORCH, "cuda": None, "gpus": 0})


def rows(*found: NodeCheck, gpus: int | None = 2) -> list[CheckRow]:
    return node_rows(found, gpus, "lab")


def troubles(*found: NodeCheck, gpus: int | None = 2) -> list[tuple[str, str, str]]:
    return [(row.verdict, row.id, row.value) for row in rows(*found, gpus=gpus) if row.verdict != OK]


def test_a_node_that_can_train() -> None:
    assert [(row.id, row.value) for row in rows(FINE)] == [
        ("hpcpack.nodes", "executed"),
        ("hpcpack.share.visible", "there and back in 0.04 s"),
        ("hpcpack.python", "3.11.2"),
        ("hpcpack.gpus", "2 × H100"),
        ("hpcpack.driver", "550.54.15"),
        ("hpcpack.torch", "2.4.0 (CUDA 12.4)"),
    ]
    assert troubles(FINE) == troubles(BARE, gpus=None) == troubles(BARE, gpus=0) == []


@pytest.mark.parametrize(
    ("found", "gpus", "trouble"),
    [
        (FINE._replace(lost="it has sent nothing"), 2, (BAD, "hpcpack.nodes", "it has sent nothing")),
        (FINE._replace(round_trip=None, unshared="it did not"), 2, (BAD, "hpcpack.share.visible", "it did not")),
        (FINE._replace(python=None, error="python9: not found"), 2, (BAD, "hpcpack.python", "python9: not found")),
        (BARE, 4, (BAD, "hpcpack.gpus", "none, and gpus_per_node is 4")),
        (FINE, 4, (BAD, "hpcpack.gpus", "2 × H100, and gpus_per_node is 4")),
        (FINE, 1, (WARNING, "hpcpack.gpus", "2 × H100, and gpus_per_node is 1")),
        (FINE._replace(torch={}), 2, (WARNING, "hpcpack.torch", "none")),
        (
            FINE._replace(torch={**TORCH, "gpus": 0}),
            2,
            (WARNING, "hpcpack.torch", "2.4.0 (CUDA 12.4) sees none of the GPUs"),
        ),
    ],
)
def test_what_is_wrong_with_a_node(found: NodeCheck, gpus: int, trouble: tuple[str, str, str]) -> None:
    assert troubles(found, gpus=gpus) == [trouble]


def test_gpus_that_nvidia_smi_does_not_count() -> None:
    """Parts of GPUs, which a compute may count; and GPUs of other makes, which torch alone sees here."""
    parts, other = FINE._replace(instances=7), FINE._replace(gpus=(), driver="")
    assert troubles(parts, gpus=7) == troubles(parts, gpus=2) == troubles(other) == []
    values = [row.value for row in rows(parts, other) if row.id == "hpcpack.gpus"]
    assert values == ["2 × H100 in 7 parts", "2, according to torch"]


def test_gpus_that_the_configuration_does_not_know() -> None:
    (row,) = [row for row in rows(FINE, FINE._replace(node="cn02"), gpus=None) if row.verdict != OK]
    assert row[:4] == ("", "hpcpack.gpus", "gpus_per_node", "not configured; every node has 2")
    assert row.hint == "gpus_per_node = 2 in [compute.lab]"
    differing = troubles(FINE, BARE._replace(node="cn02"), NodeCheck("cn03", "gone"), gpus=None)
    assert differing[1:] == [(WARNING, "hpcpack.gpus", "not configured; 2 on cn01; 0 on cn02")]


def told(tmp_path: Path, *events: tuple[str, bytes]) -> NodeCheck:
    node = _ProbedNode(0, "cn01", str(tmp_path))
    for kind, data in events:
        node.take(NodeEvent(0, kind, data, code=3))
    return node.result()


def test_what_a_node_said(tmp_path: Path) -> None:
    assert told(tmp_path).lost == "it has sent nothing"
    assert told(tmp_path, ("up", b"cn01"), ("lost", b"killed")).lost == "killed"
    silent = told(tmp_path, ("up", b"cn01"), ("end", b""))
    assert silent.error == "it ended with code 3 and printed nothing" and silent.unshared.startswith("it did not see")
    for junk in (b"[]", b"{}", b'{"gpus": 3}', b"\xff", b"null"):
        assert told(tmp_path, ("up", b"cn01"), ("out", junk), ("err", b"a\nlast words\n")).error == "last words"


class Lab:
    """A compute whose head node answers so."""

    name, capabilities = "lab", frozenset(["nodes"])

    def __init__(self, answer: list[ComputeNode] | WorldsizeError) -> None:
        self._answer = answer

    def nodes(self) -> list[ComputeNode]:
        if isinstance(self._answer, WorldsizeError):
            raise self._answer
        return self._answer


NODES = [ComputeNode("cn01", "Online"), ComputeNode("cn02", "Offline", usable=False, reason="it is offline")]


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The nodes of each look at the share."""
    seen: list[Any] = []

    def look(compute: Any, share: Any, python: str, names: Any, tell: Any) -> tuple[ShareFeatures, list[NodeCheck]]:
        seen.append(names)
        return ShareFeatures(True, False, False), [FINE._replace(node=name) for name in names]

    monkeypatch.setattr(cluster_check, "check_on_share", look)
    return seen


def checked(answer: list[ComputeNode] | WorldsizeError, local: str, **more: Any) -> dict[tuple[str, str], CheckRow]:
    share = {"head": r"\\HEAD\app", "node": "/app", "local": local}
    options = {"url": "https://head", "user": "HPC\\me", "share": share, **more}
    found = cluster_check.check_cluster(Lab(answer), ComputeSettings("lab", "hpcpack", options=options), print)  # type: ignore[arg-type]
    return {(row.id.partition(".")[2], row.node): row for row in found.rows}


def test_a_cluster(looked_at: list[Any], tmp_path: Path) -> None:
    found = checked(NODES, str(tmp_path))
    assert looked_at == [("cn01",)] and found["nodes", "cn01"].verdict == OK
    left_out = found["nodes", "cn02"]
    assert (left_out.value, left_out.verdict) == ("it is offline", WARNING)
    assert found["login", ""].value == "https://head answers HPC\\me" and found["certificate", ""].verdict == OK
    assert found["share.mounted", ""].value == str(tmp_path)
    assert checked(NODES, str(tmp_path), verify=False)["certificate", ""].verdict == WARNING
    none = checked(NODES[1:], str(tmp_path))["nodes", ""]
    assert (none.value, none.verdict) == ("none is usable", BAD)


@pytest.mark.parametrize(
    ("error", "certificate", "login"),
    [
        (WrongCertificate("expired", None, "renew it"), BAD, UNKNOWN),
        (LoginRefused("wrong password"), OK, BAD),
        (SubmitRejected("no permission"), OK, BAD),
        (SubmitAgain("cannot be reached"), UNKNOWN, BAD),
    ],
)
def test_a_head_node_that_lets_nobody_in(
    looked_at: list[Any], tmp_path: Path, error: WorldsizeError, certificate: str, login: str
) -> None:
    found = checked(error, str(tmp_path))
    assert (found["certificate", ""].verdict, found["login", ""].verdict) == (certificate, login)
    assert ("nodes", "") not in found and looked_at == [()], "the share is looked at all the same"


def test_a_share_that_is_not_there_or_not_written(
    looked_at: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = checked(NODES, os.path.join(tmp_path, "none"))
    assert found["share.mounted", ""].verdict == BAD and looked_at == []
    assert found["login", ""].verdict == OK and found["nodes", "cn02"].verdict == WARNING

    def fail(*_: Any) -> Any:
        raise StorageError("cannot write: no space", str(tmp_path), "make room")

    monkeypatch.setattr(cluster_check, "check_on_share", fail)
    row = checked(NODES, str(tmp_path))["share.features", ""]
    assert row[3:] == ("%s: cannot write: no space" % tmp_path, BAD, "make room")


def test_a_configuration_that_says_too_little(looked_at: list[Any], tmp_path: Path) -> None:
    too_little: list[dict[str, Any]] = [{"user": None}, {"share": {}}, {"url": "http://head"}]
    for more in too_little:
        with pytest.raises(ConfigError):
            checked(NODES, str(tmp_path), **more)
    with pytest.raises(ConfigError):
        checked(ConfigError("no host has this name"), str(tmp_path))


def test_features_that_nothing_helps_are_fine() -> None:
    found = ShareFeatures(modes=False, links=False, hard_links=False).rows("f")
    assert [row.verdict for row in found] == [WARNING, WARNING, OK] and "hard links" in found[2].value
    assert {row.verdict for row in ShareFeatures(True, True, True).rows("f")} == {OK}
