from __future__ import annotations

import pytest

from worldsize.wings.metrics.tensorboard.file_names import FileName, is_event_file, parse_name


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("events.out.tfevents.1764224000.node1.4711.0", FileName(1764224000, "node1", 4711)),
        ("events.out.tfevents.1764224000.node1.site.edu.4711.0", FileName(1764224000, "node1.site.edu", 4711)),
        ("events.out.tfevents.1764224000.node1.4711.3.v2", FileName(1764224000, "node1", 4711)),
        ("events.out.tfevents.1764224000.node1.4711.0_suffix", FileName(1764224000, "node1", 4711)),
        ("events.out.tfevents.1764224000.node1", FileName(1764224000, "node1")),
        ("events.out.tfevents.1764224000.node1.site.edu", FileName(1764224000, "node1.site.edu")),
        ("mine.tfevents", FileName()),
        ("events.out.tfevents." + "9" * 500, FileName()),
    ],
)
def test_what_names_say(name: str, expected: FileName) -> None:
    assert parse_name("/somewhere/tfevents.1111111111.x/" + name) == expected


def test_what_is_an_event_file() -> None:
    assert is_event_file("/a/events.out.tfevents.1.x") and not is_event_file("/tfevents/a")
