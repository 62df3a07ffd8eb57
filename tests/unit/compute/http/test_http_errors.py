"""What answers over HTTP say that are no success."""

from __future__ import annotations

import pytest

from worldsize.compute.http.errors import message_of, pause_of


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


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("7", 7.0),
        (" 1.5 ", 1.5),
        ("Tue, 14 Nov 2023 22:13:50 GMT", 30.0),
        ("Tue, 14 Nov 2023 22:13:50 +0100", 0.0),
        ("", 0.0),
        ("-3", 0.0),
        ("soon", 0.0),
        ("9" * 400, 0.0),
        ("Tue, 14 Nov 99999999 22:13:50 GMT", 0.0),
    ],
)
def test_when_to_come_again(said: str, seconds: float) -> None:
    assert pause_of(said, 1_700_000_000.0) == seconds
