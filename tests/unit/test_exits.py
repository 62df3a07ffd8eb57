"""What agents left, as it is read."""

from __future__ import annotations

from pathlib import Path

from worldsize.plan.paths import RunPaths
from worldsize.state.exits import read_events


def test_events_but_for_the_line_that_is_being_written_and_those_that_a_full_disk_cut(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    assert read_events(paths, 0) == []
    Path(paths.events_dir).mkdir(parents=True)
    Path(paths.events(0)).write_text(
        '{"event": "a"}\n{"event": "b", "ti{"event": "c"}\n3\n{"event": "d"}\n{"event": "e"'
    )
    assert [event["event"] for event in read_events(paths, 0)] == ["a", "d"]
