"""What is shown of URLs."""

from __future__ import annotations

import pytest

from worldsize.wings.staging.http import display_url


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("https://anna:pw@host/a/b?sig=x#y", "https://host/a/b?…"),
        ("https://host/t/TOKEN/channel/x.zip", "https://host/t/***/channel/x.zip"),
        ("s3://bucket/key=1/part", "s3://bucket/key=1/part"),
        ("https://host/a%20b/c", "https://host/a%20b/c"),
    ],
)
def test_without_secrets(url: str, said: str) -> None:
    assert display_url(url) == said
