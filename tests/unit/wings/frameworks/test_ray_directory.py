"""Where Ray keeps its sockets: short, private, and removed, by the next run where a run was killed."""

from __future__ import annotations

import os
from pathlib import Path

from worldsize.wings.frameworks.agent.ray_directory import RayDirectory


def test_it_is_private_and_removed(tmp_path: Path) -> None:
    made = RayDirectory(str(tmp_path))
    assert os.stat(made.path).st_mode & 0o777 == 0o700
    made.remove()
    assert os.listdir(tmp_path) == []


def test_what_a_killed_run_has_left_is_removed_and_what_lives_stays(tmp_path: Path) -> None:
    living = RayDirectory(str(tmp_path))
    left = tmp_path / f"ws-ray-{os.getuid()}-gone"
    (left / "session").mkdir(parents=True)
    (left / "lock").touch()
    begun = tmp_path / f"ws-ray-{os.getuid()}-begun"
    begun.mkdir()
    (tmp_path / f"ws-ray-{os.getuid()}-link").symlink_to("/")
    other = RayDirectory(str(tmp_path))
    assert not left.exists() and begun.exists() and os.path.isdir(living.path) and os.path.isdir(other.path)
    living.remove()
    other.remove()


def test_the_last_words_of_ray_on_the_node(tmp_path: Path) -> None:
    made = RayDirectory(str(tmp_path))
    assert made.last_line() == ""
    logs = Path(made.path) / "session_latest" / "logs"
    logs.mkdir(parents=True)
    (logs / "raylet.out").write_text("one\nkilled for memory\n\n")
    assert made.last_line() == "killed for memory"
    made.remove()
