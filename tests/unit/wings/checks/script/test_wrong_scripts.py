"""Scripts that are wrong, each in one way: the finding, its file and line, its verdict, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from script_bundles import Script, parametrized, scripts

from worldsize.wings.checks.script.findings import script_findings


def still() -> float:
    return 0.0


@parametrized("wrong")
def test_a_wrong_script_is_found_with_its_line(script: Script, tmp_path: Path) -> None:
    found = script_findings(script.write(tmp_path), still)
    assert script.expected(), "the script says what is wrong with it"
    assert sorted((each.id, each.file, each.line, each.verdict) for each in found) == script.expected()
    assert all(each.what and each.hint for each in found)


@pytest.mark.parametrize(("kind", "verdict"), [(None, "warning"), ("", "warning"), ("PyTorch", "bad"), ("jax", "bad")])
def test_who_asks_for_a_distribution_means_one_training(kind: str, verdict: str, tmp_path: Path) -> None:
    request = scripts("wrong")[0].write(tmp_path)._replace(distribution=kind)
    assert [each.verdict for each in script_findings(request)] == [verdict]


def test_data_parallel_is_said_to_know_one_process_alone(tmp_path: Path) -> None:
    request = scripts("wrong")[0].write(tmp_path)
    for path in Path(request.code_dir or "").glob("*.py"):
        path.write_text(
            path.read_text().replace("torch.nn.Linear(2, 2)", "torch.nn.DataParallel(torch.nn.Linear(2, 2))")
        )
    (found,) = script_findings(request, still)
    assert found.id == "script.not_distributed"
    assert "DataParallel uses the GPUs of one process only" in found.what and "DistributedDataParallel" in found.hint


@pytest.mark.parametrize("code", ["", None, "/none"])
def test_a_request_without_code_has_no_findings(code: str, tmp_path: Path) -> None:
    assert script_findings(scripts("wrong")[0].write(tmp_path)._replace(code_dir=code)) == []


def test_virtual_nodes_may_meet_at_the_loopback_address(tmp_path: Path) -> None:
    script = next(each for each in scripts("wrong") if each.name == "the loopback address as an argument")
    request = script.write(tmp_path)
    assert [each.id for each in script_findings(request, still)] == ["script.address"]
    assert script_findings(request._replace(virtual=True), still) == []


def test_there_are_many_of_every_kind() -> None:
    found = [id for script in scripts("wrong") for id, *_ in script.expected()]
    assert len(found) >= 40
    kinds = ("not_distributed", "device", "address", "sampler", "set_epoch", "saving", "processes", "workers")
    assert set(found) == {f"script.{kind}" for kind in kinds}
