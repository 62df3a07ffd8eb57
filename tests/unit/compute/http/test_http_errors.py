"""What answers over HTTP say that are no success."""

from __future__ import annotations

import pytest

from worldsize.compute.http.errors import message_of


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'"No such\\n job"', "No such job"),
        (b'{"Message": "general", "ExceptionMessage": "exact"}', "exact"),
        (b'{"error": {"code": 3}}', '{"code": 3}'),
        (b"plain words", "plain words"),
        (b"<Fault><Reason><Text xml:lang='en'>Access is denied.</Text></Reason></Fault>", "Access is denied."),
        (b"<html><body>...</body></html>", "Bad Request"),
        (b"", "Bad Request"),
        (b"\xff\xfe" + b"x" * 2000, None),
    ],
)
def test_what_a_refusal_says(body: bytes, words: str | None) -> None:
    said = message_of(body, "Bad Request")
    assert said == words if words is not None else len(said) == 500
