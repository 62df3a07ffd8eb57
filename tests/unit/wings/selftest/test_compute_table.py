"""A configured compute, written as a table, is read as the same compute again."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.jobspec.config.config import ComputeSettings
from worldsize.jobspec.config.load import load_config
from worldsize.wings.selftest.compute_table import table_of

TABLES = {
    "slurm": """
[compute."lab"]
type = "slurm"
partition = "gpu"
account = "proj 4711"
gpus_per_node = 4
grace = 2.5
offline = true
setup = ["export A='ü \\"x\\"'", "true"]
modules = ["cuda/12"]
virtual_packages = ["__cuda=12.4"]
""",
    "hpcpack": """
[compute.lab]
type = "hpcpack"
url = "https://head"
user = 'HPC\\admin'
share = { head = '\\\\HEAD\\app', node = "/app", local = "/mnt/app" }
job_properties = { Priority = "Normal" }
verify = false
""",
    "local": "[compute.lab]\ntype = 'local'\ngrace = 1\n",
}


def read(folder: Path, text: str) -> ComputeSettings:
    folder.mkdir(exist_ok=True)
    (folder / "worldsize.toml").write_text(text, encoding="utf-8")
    environ = {"HOME": str(folder), "WORLDSIZE_TRUST_PROJECT": "1", "WORLDSIZE_SITE_CONFIG": str(folder / "none")}
    return load_config(str(folder), environ).compute("lab")


@pytest.mark.parametrize("kind", TABLES)
def test_it_is_the_same_compute(kind: str, tmp_path: Path) -> None:
    first = read(tmp_path / "a", TABLES[kind])
    again = read(tmp_path / "b", table_of(first, first.runs_dir))
    assert again == first


def test_its_places_are_the_self_tests_own(tmp_path: Path) -> None:
    table = TABLES["slurm"] + 'runs_dir = "/shared/runs"\ndata_dir = "/shared/data"\nenvs_dir = "/shared/envs"\n'
    settings = read(tmp_path / "a", table)
    assert "/shared" not in table_of(settings, None)
    assert 'runs_dir" = "/own/runs"' in table_of(settings, "/own/runs")


def test_a_name_and_a_text_with_odd_signs() -> None:
    settings = ComputeSettings(name='a "b" \x7f', type="local", options={"setup": ["é\x7f\t🦊"]})
    assert table_of(settings, None).splitlines() == [
        '[compute."a \\"b\\" \\u007f"]',
        '"type" = "local"',
        '"setup" = ["é\\u007f\\t🦊"]',
    ]
