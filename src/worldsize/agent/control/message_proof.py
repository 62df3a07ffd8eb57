"""What proves that a message comes from the run's other side, and only once.

Both sides send a nonce. They and the run's token, which never leaves its owner, make a key for each direction; each
line then carries an HMAC-SHA256 of its number and its text's SHA-256, which is made once for a text that many nodes
are sent. A line that was changed, left out, repeated, or sent back to its sender does not fit.
"""

from __future__ import annotations

import os
from _operator import _compare_digest as compare_digest  # the function that hmac exports

from worldsize.common.sha256 import sha256

HEAD, MEMBER = b"head", b"member"
NONCE = 32
"""Characters, hexadecimal."""

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
    """One side of a connection: `role` is its own."""

    def __init__(self, token: str, role: bytes, own: bytes, others: bytes) -> None:
        nonces = own + others if role == HEAD else others + own
        session = _mac(token.encode(), nonces)
        self._out = _mac(session, role)
        self._in = _mac(session, MEMBER if role == HEAD else HEAD)
        self._sent = self._taken = 0

    def seal(self, text: bytes, digest: bytes | None = None) -> bytes:
        """Return the text as a sealed line, without a line end. `digest`: the text's, where it is known."""
        self._sent += 1
        return _proof(self._out, self._sent, digest or text_digest(text)) + text

    def unseal(self, line: bytes) -> bytes | None:
        """Return the text of a sealed line; None unless it is the next line that the other side has sealed."""
        self._taken += 1
        text = line[_MAC + 1 :]
        expected = _proof(self._in, self._taken, text_digest(text))
        return text if compare_digest(expected, line[: _MAC + 1]) else None


def derived_key(token: str, purpose: bytes) -> str:
    """Return a key that only who has the run's token can make, the same on all nodes: 64 hexadecimal characters."""
    return _mac(token.encode(), purpose).hex()


def _proof(key: bytes, number: int, digest: bytes) -> bytes:
    """What stands before the text of the line with this number."""
    return _mac(key, b"%d %s" % (number, digest)).hex().encode() + b" "


def _mac(key: bytes, text: bytes) -> bytes:
    """HMAC of RFC 2104 with SHA-256, without `hmac`, which loads all of OpenSSL: 3 ms for each node's agent."""
    block = (key if len(key) <= _BLOCK else sha256(key).digest()).ljust(_BLOCK, b"\0")
    inner = sha256(block.translate(_INNER) + text).digest()
    return bytes(sha256(block.translate(_OUTER) + inner).digest())
