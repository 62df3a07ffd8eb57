"""Sizes as people write them, and where they may stand."""

from __future__ import annotations

import pytest

from worldsize.errors import JobError
from worldsize.jobspec.reading.job_file import parse_job
from worldsize.jobspec.sizes import bytes_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1", 1),
        ("500 MB", 500_000_000),
        ("500mb", 500_000_000),
        (" 20 GiB ", 20 << 30),
        ("1.5KiB", 1536),
        ("2 kB", 2000),
        ("1 TB", 10**12),
        ("7 B", 7),
        *((text, None) for text in ("", "0", "0 GB", "-1", "1e9", "5 miles", "GB", "1 G B", "1,5 GB", "٣ GB\n1")),
    ],
)
def test_sizes(text: str, expected: int | None) -> None:
    assert bytes_of(text) == expected


def test_a_download_of_an_environment() -> None:
    text = "command: x\nenvironment:\n  fetch:\n  - url: https://h/x.tar\n    sha256: %s\n    max_size: %s\n"
    environment = parse_job(text % ("0" * 64, "2 GB"), "job.yml").job.environment
    assert isinstance(environment, dict) and environment["fetch"][0]["max_size"] == "2 GB"
    with pytest.raises(JobError, match=r"environment.fetch\[0\].max_size: is not a size") as refused:
        parse_job(text % ("0" * 64, "much"), "job.yml")
    assert "500 MB" in str(refused.value)
