"""Lines that prove where they come from."""

from __future__ import annotations

import hmac

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.agent.control import message_proof
from worldsize.agent.control.message_proof import HEAD, MEMBER, NONCE, Seal, is_nonce, new_nonce


def pair(token: str = "secret", other: str | None = None) -> tuple[Seal, Seal]:
    head, member = new_nonce(), new_nonce()
    return Seal(token, HEAD, head, member), Seal(other or token, MEMBER, member, head)


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_the_standard_librarys_hmac_gives_the_same(key: bytes, text: bytes) -> None:
    assert message_proof._mac(key, text) == hmac.digest(key, text, "sha256")


def test_both_ways() -> None:
    head, member = pair()
    for number in range(3):
        assert head.unseal(member.seal(b"to the head %d" % number)) == b"to the head %d" % number
        assert member.unseal(head.seal(b"back %d" % number)) == b"back %d" % number


def test_another_token() -> None:
    head, member = pair(other="guess")
    assert head.unseal(member.seal(b"{}")) is None and member.unseal(head.seal(b"{}")) is None


def test_a_line_counts_once_and_in_its_place() -> None:
    head, member = pair()
    _, second = member.seal(b"1"), member.seal(b"2")
    assert head.unseal(second) is None
    head, member = pair()
    first = member.seal(b"1")
    assert head.unseal(first) == b"1" and head.unseal(first) is None


def test_a_line_sent_back_to_its_sender() -> None:
    head, member = pair()
    assert member.unseal(member.seal(b"x")) is None and head.unseal(head.seal(b"x")) is None


def test_a_line_of_another_connection() -> None:
    (_, old), (head, _) = pair(), pair()
    assert head.unseal(old.seal(b"x")) is None


@pytest.mark.parametrize("line", [b"", b" ", b"x" * 64, b"0" * 64 + b" {}", b"\xc3\xbc" * 70, b"\x00" * 200])
def test_nonsense(line: bytes) -> None:
    assert pair()[0].unseal(line) is None


@pytest.mark.parametrize("place", [0, 63, 64, 65, -1])
def test_a_changed_line(place: int) -> None:
    head, member = pair()
    line = bytearray(member.seal(b'{"kind":"ready"}'))
    line[place] ^= 1
    assert head.unseal(bytes(line)) is None


def test_nonces() -> None:
    assert is_nonce(new_nonce()) and len(new_nonce()) == NONCE and new_nonce() != new_nonce()
    assert not any(map(is_nonce, (b"", b"0" * 31, b"0" * 33, b"G" * 32, b"0" * 31 + b" ", b"\xff" * 32)))
