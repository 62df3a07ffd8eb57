"""Names that tell contents apart. Python >= 3.8: agents use it."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # hashlib loads all of OpenSSL as well, 3 ms of every start
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b", "digest_of"]


def digest_of(data: bytes) -> str:
    """40 hexadecimal characters."""
    return blake2b(data, digest_size=20).hexdigest()
