"""Less shared memory than a job asks for: one sentence with both numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from worldsize.agent.machine.shared_memory import shortage_text
from worldsize.jobspec.sizes import memory_bytes_of


def test_both_numbers_are_told(tmp_path: Path) -> None:
    assert shortage_text(1, "n1", str(tmp_path)) == ""
    text = shortage_text(1 << 60, "n1", str(tmp_path))
    assert text.startswith("%s of n1 has " % tmp_path) and text.endswith("asks for 1.07e+09 GiB")
    assert shortage_text(2 << 30, "n1", str(tmp_path / "none")).endswith("none, and resources.shm_size asks for 2 GiB")


@pytest.mark.parametrize(
    ("text", "size"),
    [("2g", 2 << 30), ("64M", 64 << 20), ("1.5gb", 3 << 29), ("512", 512), ("8k", 8192), ("0", None), ("much", None)],
)
def test_sizes_as_docker_has_them(text: str, size: int | None) -> None:
    assert memory_bytes_of(text) == size
