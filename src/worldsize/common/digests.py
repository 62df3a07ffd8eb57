"""Digests that identify contents. Python >= 3.8: agents use them."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # hashlib also loads all of OpenSSL, which takes 3 ms of every start
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b", "digest_of"]


def digest_of(data: bytes) -> str:
    """Return the BLAKE2b digest of the data as 40 hexadecimal characters."""
    return blake2b(data, digest_size=20).hexdigest()
