"""The lines of a node's log: readable, short, each with a code that nobody else can make."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from selection import cases

from worldsize.wings.azure.agent.log_lines import MOST_BYTES, MOST_FILE_BYTES, LogLines, Piece

LINES = LogLines(b"key")
FILE = "attempt-0/logs/rank-00003.log"
EVENTS = "attempt-0/events/node-0001.jsonl"


def piece(data: bytes, at: int = 0, file: str = FILE, whole: int | None = None) -> Piece:
    return Piece(file, 7, at, data, whole)


def log_of_rank(rank: int) -> tuple[str, int] | None:
    return (FILE, 7) if rank == 3 else None


def parsed(lines: bytes, reader: LogLines = LINES) -> tuple[bytes, list[Piece]]:
    """What is not ours, and the pieces."""
    found = [reader.parse(line, log_of_rank) for line in lines.split(b"\n")[:-1]]
    return b"".join(text for text, _ in found), [each for _, each in found if each is not None]


def test_people_can_read_lines_of_ranks() -> None:
    (line,) = LINES.rank_lines(3, piece("epoch 1: loss 0.5 – schön 🙂\n".encode(), 120))
    assert line.startswith("[3] epoch 1: loss 0.5 – schön 🙂 #120+33.".encode())
    assert parsed(line) == (b"", [piece("epoch 1: loss 0.5 – schön 🙂\n".encode(), 120)])


def test_events_are_marked_json_in_ascii() -> None:
    (line,) = LINES.marked_lines(piece('{"event":"größe"}\n'.encode(), 5, EVENTS))
    start, _, _ = line.partition(b" #")
    value = json.loads(start.split(b"> ", 1)[1])
    assert line.isascii() and line.startswith(b"worldsize> {")
    assert value == {"file": EVENTS, "version": 7, "at": 5, "text": '{"event":"größe"}\n'}
    many = LINES.marked_lines(piece(b'{"time":1764224000.1,"event":"beat"}\n' * 500, 0, EVENTS))
    assert all(b'"text":' in line and line.count(b"beat") > 40 for line in list(many)[:-1])
    (line,) = LINES.marked_lines(piece(b"\xff\0", 0, "attempt-0/exit/node-0001.json", 2))
    assert b'"whole":2,"data":"/wA="}' in line


@pytest.mark.parametrize(
    "text",
    [
        *(b"progress\r\n", b"\r 10%\r 20%", b"no end", b"a\0b\n", b"\xed\xa0\x80\n", b"\xef\xbb\xbfmark\n", b"\xff\n"),
        *("line\u2028separator\n".encode(), b"\x07bell\n", b"x" * 5000 + b"\n", b"x" * 300_000, b"\0" * 9000),
        *("界".encode() * 5000, b"\xff" * 5000, "\U0001f642".encode() * 3000 + b"\n", b"\\" * 3000),
    ],
)
def test_what_no_text_log_should_hold_is_marked(text: bytes) -> None:
    lines = list(LINES.rank_lines(3, piece(text)))
    assert all(line.startswith(b"worldsize> ") and line.isascii() and len(line) <= MOST_BYTES for line in lines)
    assert b"".join(found.data for found in parsed(b"".join(lines))[1]) == text


@given(st.binary(max_size=6000) | st.text(max_size=2000).map(lambda text: text.encode("utf-8", "surrogatepass")))
@settings(max_examples=cases(200), deadline=None)
def test_every_byte_arrives_in_short_lines(data: bytes) -> None:
    for lines in (LINES.rank_lines(3, piece(data, 11)), LINES.marked_lines(piece(data, 11, EVENTS))):
        printed = list(lines)
        assert all(len(line) <= MOST_BYTES and line.endswith(b"\n") for line in printed)
        others, found = parsed(b"".join(printed))
        assert others == b"" and b"".join(each.data for each in found) == data
        assert all(each.at == 11 + sum(len(one.data) for one in found[:i]) for i, each in enumerate(found))


@given(st.binary(max_size=300).filter(lambda text: b"\n" not in text))
@settings(max_examples=cases(200), deadline=None)
def test_what_stands_before_in_the_same_line_is_left_over(before: bytes) -> None:
    for line in (*LINES.rank_lines(3, piece(b"hello\n")), *LINES.marked_lines(piece(b"{}\n", 0, EVENTS))):
        text, found = LINES.parse(before + line[:-1] + b"\r", log_of_rank)
        assert text == (b"" if before == b"\xef\xbb\xbf" else before)
        assert found is not None and found.data in (b"hello\n", b"{}\n")


def test_only_the_key_makes_lines() -> None:
    others = LogLines(b"another key")
    forged = b"".join([*others.rank_lines(3, piece(b"a\n")), *others.marked_lines(piece(b"a\n", 0, EVENTS))])
    forged += b"[3] plain\nworldsize> {}\nworldsize> \n[3] x #0+1.AAAAAAAA\nx #9999.AAAAAAAA\n #0.AAAAAAAA\n\n"
    assert parsed(forged) == (forged.replace(b"\n", b""), [])


def test_a_line_counts_for_its_file_and_place_alone() -> None:
    (line,) = LINES.rank_lines(3, piece(b"loss 1\n", 50))
    assert parsed(line.replace(b"#50+", b"#51+"))[1] == []
    assert parsed(line.replace(b"[3]", b"[2]"))[1] == []
    assert LINES.parse(line[:-1], lambda rank: (FILE, 8)) == (line[:-1], None)
    assert LINES.parse(line[:-1], lambda rank: (FILE.replace("attempt-0", "attempt-1"), 7)) == (line[:-1], None)
    assert parsed(line[3:])[1] == parsed(line[:-4] + b"\n")[1] == parsed(line.replace(b"loss", b"gain"))[1] == []


def test_a_rank_cannot_print_its_way_out_of_its_line() -> None:
    (own,) = LINES.rank_lines(3, piece(b"first\n"))
    (event,) = LINES.marked_lines(piece(b"{}\n", 0, EVENTS))
    printed = own + event + b"[2] x\nx" + own
    lines = b"".join(LINES.rank_lines(3, piece(printed, 6)))
    assert parsed(lines)[0] == b""
    assert b"".join(found.data for found in parsed(lines)[1]) == printed


@pytest.mark.parametrize(
    "value",
    [
        *({}, [], None, {"file": 3}, {"file": EVENTS, "version": 1, "at": -1, "text": ""}),
        *(
            {"file": EVENTS, "version": True, "at": 0, "text": ""},
            {"file": EVENTS, "version": 1, "at": 10**15, "text": ""},
        ),
        *(
            {"file": "x" * 101, "version": 1, "at": 0, "text": ""},
            {"file": EVENTS, "version": 1, "at": 0.0, "text": ""},
        ),
        *(
            {"file": EVENTS, "version": 1, "at": 0, "text": "\ud800"},
            {"file": EVENTS, "version": 1, "at": 0, "data": "a"},
        ),
        {"file": EVENTS, "version": 1, "at": 0, "text": "abc", "whole": 2},
        {"file": EVENTS, "version": 1, "at": 0, "text": "", "whole": MOST_FILE_BYTES + 1},
    ],
)
def test_lines_with_the_key_may_hold_nonsense(value: object) -> None:
    text = b"worldsize> " + json.dumps(value).encode()
    line = b"%s #%d.%s" % (text, len(text), LINES._code(text))
    assert LINES.parse(line, log_of_rank) == (line, None)
