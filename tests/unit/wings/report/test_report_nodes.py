"""What a run's page tells of its nodes' hardware and software."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded_reports import ReadPage, facts_of, record_run, write

from worldsize.plan.run_paths import RunPaths
from worldsize.wings.report.facts import RunFacts
from worldsize.wings.report.page import run_page
from worldsize.wings.report.sections import node_facts


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("WORLDSIZE_HOME", str(tmp_path))
    return str(tmp_path)


def texts(facts: RunFacts) -> dict[str, str]:
    return ReadPage(run_page(facts)).texts


def put_node(paths: RunPaths, node: int, gpu: str) -> None:
    table = {"hardware": [["CPU", "EPYC, 64 cores"], ["GPU", gpu]], "software": [["framework", "torch 2.7.1"]]}
    value = {"version": 1, "nodes": [node], "host": f"n{node}", "machine": f"m{node}", "cores": 64, "gpus": 8, **table}
    write(paths.node_facts(node), value)


def test_what_the_nodes_are_made_of(home: str) -> None:
    paths = record_run(home)
    put_node(paths, 0, "A100")
    put_node(paths, 1, "V100 <hf_abcdefghijklmnop1234>")
    text = texts(facts_of(paths))["nodes"]
    assert "Hardware" in text and "CPU|EPYC, 64 cores" in text and "framework|torch 2.7.1" in text
    assert "GPU|A100 (n0); V100 <***> (n1)" in text


def test_an_installation_without_the_wing_of_facts(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = record_run(home)
    put_node(paths, 0, "A100")
    monkeypatch.setattr(node_facts, "find_provider", lambda kind: None)
    assert "nodes" not in texts(facts_of(paths))


def test_a_short_run_of_this_machine_is_told_as_such(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = record_run(home)
    facts = node_facts.find_provider("facts")
    assert facts is not None
    put_node(paths, 0, "A100")
    found = facts.read_facts(paths)
    monkeypatch.setattr(facts, "recorded_facts", lambda paths: ())
    monkeypatch.setattr(facts, "read_facts", lambda paths: found)
    assert "As of this page" in texts(facts_of(paths))["nodes"]
