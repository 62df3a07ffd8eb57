"""What launches and shows runs, on this machine and on Slurm, imports no package of an extra."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import Cli
from slurm_fakes import FakeSlurm
from source_code import packages_of_extras


@pytest.fixture
def core(cli: Cli, tmp_path: Path) -> Cli:
    """A command line that ends with a traceback where it imports one of them."""
    folder = tmp_path / "extras"
    folder.mkdir()
    for package in packages_of_extras():
        (folder / (package + ".py")).write_text("raise SystemError('%s was imported')\n" % package)
    cli.environ["PYTHONPATH"] = "%s:%s" % (folder, cli.environ["PYTHONPATH"])
    return cli


def test_they_are_noticed(core: Cli) -> None:
    result = core("convert", core.write("train.py", "print(1)\n"))
    assert result.code != 0 and "libcst was imported" in result.err


def test_a_run_on_this_machine(core: Cli) -> None:
    core.run("-w", "1x2", "--", "echo", "hello")
    assert "hello" in core.ok("logs").out
    assert "SUCCEEDED" in core.ok("status").out
    assert "SUCCEEDED" in core.ok("list").out
    core.ok("submit", "--dry-run", "-w", "2x2", "--", "true")


def test_what_slurm_is_asked(core: Cli, tmp_path: Path) -> None:
    """Up to Slurm's own answer, which is no here."""
    slurm = FakeSlurm(tmp_path / "slurm")
    core.write("worldsize.toml", 'compute.cluster.type = "slurm"\n')
    words = ("--compute", "cluster", "-w", "2x2", "--", "true")
    result = core("submit", "--dry-run", *words, PATH=slurm.environ["PATH"])
    assert result.code == 2 and "Slurm would refuse it" in result.err
    assert slurm.calls("sbatch")
