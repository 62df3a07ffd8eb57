"""Scripts that are wrong, each in one way: the finding, its file and line, its verdict, and nothing else."""

from __future__ import annotations

from pathlib import Path

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


def test_there_are_many_of_every_kind() -> None:
    found = [id for script in scripts("wrong") for id, *_ in script.expected()]
    assert len(found) >= 40
    kinds = ("not_distributed", "device", "address", "sampler", "set_epoch", "saving", "processes", "workers")
    assert set(found) == {f"script.{kind}" for kind in kinds}
