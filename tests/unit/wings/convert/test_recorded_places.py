"""Which lines of a process that is being checked are the script's own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")

from worldsize.wings.convert.inrank.recorder import Recorder


@pytest.mark.parametrize(
    ("path", "is_own"),
    [("train.py", True), ("ddp.py", False), ("<frozen os>", False), ("<string>", False), ("../other.py", False)],
)
def test_a_name_in_angle_brackets_is_no_file(
    path: str, is_own: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    recorder = Recorder({"writable": [str(tmp_path)], "helpers": str(tmp_path / "ddp.py"), "latest": 0.0})
    assert recorder._is_own_file(path) is is_own
