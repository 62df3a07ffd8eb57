"""The proof that a message comes from the other side of the connection, and that it arrives only once.

Both sides send a nonce. The nonces and the run's token, which never leaves its owner, determine a key for each
direction. Each line then carries an HMAC-SHA256 of its number and of its text's SHA-256. The SHA-256 is computed once
for a text that is sent to many nodes. The check fails for a line that was changed, left out, repeated, or sent back to
its sender.
"""

from __future__ import annotations

import os
from _operator import _compare_digest as compare_digest  # the function that hmac exports

from worldsize.common.sha256 import sha256

HEAD, MEMBER = b"head", b"member"
NONCE = 32
"""The number of hexadecimal characters of a nonce."""

_MAC = 64
_BLOCK = 64
_INNER, _OUTER = bytes(each ^ 0x36 for each in range(256)), bytes(each ^ 0x5C for each in range(256))


def new_nonce() -> bytes:
    return os.urandom(NONCE // 2).hex().encode()


def is_nonce(line: bytes) -> bool:
    return len(line) == NONCE and not line.strip(b"0123456789abcdef")


def text_digest(text: bytes) -> bytes:
    return bytes(sha256(text).digest())


class Seal:
    """The keys and counters with which one side of a connection seals and verifies lines. `role` is the role of this
    side."""

    def __init__(self, token: str, role: bytes, own: bytes, others: bytes) -> None:
        nonces = own + others if role == HEAD else others + own
        session = _mac(token.encode(), nonces)
        self._out = _mac(session, role)
        self._in = _mac(session, MEMBER if role == HEAD else HEAD)
        self._sent = self._taken = 0

    def seal(self, text: bytes, digest: bytes | None = None) -> bytes:
        """Return the message `text` as a sealed line, without a line end: its proof (HMAC) and the text. `digest` is
        the SHA-256 of the text, if it is known. Each call counts as the next line of this side."""
        self._sent += 1
        return _proof(self._out, self._sent, digest or text_digest(text)) + text

    def unseal(self, line: bytes) -> bytes | None:
        """Verify a sealed line, and return the message text in it; None unless it is the next line that the other side
        of the connection has sealed."""
        self._taken += 1
        text = line[_MAC + 1 :]
        expected = _proof(self._in, self._taken, text_digest(text))
        return text if compare_digest(expected, line[: _MAC + 1]) else None


def derived_key(token: str, purpose: bytes) -> str:
    """Return a key of 64 hexadecimal characters for `purpose` that only a process with the run's `token` can compute.
    The key is the same on all nodes of the run."""
    return _mac(token.encode(), purpose).hex()


def _proof(key: bytes, number: int, digest: bytes) -> bytes:
    """Return the prefix that proves line `number` of one direction of a connection: the HMAC of the number and of the
    text's `digest`, in hexadecimal, and a blank."""
    return _mac(key, b"%d %s" % (number, digest)).hex().encode() + b" "


def _mac(key: bytes, text: bytes) -> bytes:
    """Return the 32 bytes of the HMAC-SHA256 (RFC 2104) of `text` with `key`. The module `hmac` is not used because it
    loads all of OpenSSL, which takes each node's agent 3 ms."""
    block = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner = sha256(block.translate(_INNER) + text).digest()
    return bytes(sha256(block.translate(_OUTER) + inner).digest())
