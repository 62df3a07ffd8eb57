"""docs/how-to/clusters/hpcpack.md: what it shows and is not executed there is at least read."""

from __future__ import annotations

from pathlib import Path

from documents import blocks, find_page

from worldsize.jobspec.config.load import load_config

_PAGE = find_page("hpcpack.md")


def test_the_configuration_is_one(tmp_path: Path) -> None:
    (text,) = [block.text for block in blocks(_PAGE) if block.language == "toml"]
    (tmp_path / "worldsize.toml").write_text(text)
    environ = {"WORLDSIZE_SITE_CONFIG": str(tmp_path / "none.toml"), "HOME": str(tmp_path)}
    compute = load_config(str(tmp_path), environ).compute()
    assert (compute.type, compute.runs_dir, compute.gpus_per_node) == ("hpcpack", "/mnt/app/runs", 4)
    assert compute.options["share"] == {"head": r"\\HEAD\CcpSpoolDir\app", "node": "/app", "local": "/mnt/app"}
    assert compute.options["ca_file"] == str(tmp_path / "head.pem")
