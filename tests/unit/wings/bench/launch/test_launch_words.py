"""`worldsize bench launch` before anything is started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from in_process import InProcess


@pytest.fixture
def cli(tmp_path: Path) -> InProcess:
    found = InProcess(str(tmp_path))
    found.write("worldsize.toml", '[compute.lab]\ntype = "slurm"\n')
    return found


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--environment", "none"), "/none/bin/python"),
        (("--launchers", "torchrun", "--compute", "lab"), "torchrun cannot be measured: it starts ranks"),
        (("--launchers", "srun", "--compute", "local"), "srun cannot be measured: there is neither"),
        (("--launchers", ""), "'' is not a launcher"),
        (("--rounds", "0"), "--rounds"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_made(
    cli: InProcess, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    result = cli("bench", "launch", "-w", "1x2", *words)
    assert result.code == 2, result
    assert said in result.err
    assert os.listdir(cli.project) == ["worldsize.toml"]


def test_a_dry_run_prints_the_commands(cli: InProcess) -> None:
    words = ("--compute", "lab", "--set", "queue=long", "--launchers", "worldsize", "--dry-run")
    result = cli("bench", "launch", "-w", "1x2,2x2", *words)
    assert result.code == 0, result
    first, second = result.out.splitlines()
    assert " run -w 1x2 " in first and " run -w 2x2 " in second
    assert all(" --compute lab --set queue=long --code " in line for line in (first, second))
    assert os.listdir(cli.project) == ["worldsize.toml"]
