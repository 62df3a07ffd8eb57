"""Names that tell contents apart. Python >= 3.8: agents use it."""

from __future__ import annotations

try:
    from _blake2 import blake2b  # hashlib loads all of OpenSSL as well, 3 ms of every start
except ImportError:
    from hashlib import blake2b

__all__ = ["blake2b", "digest_of", "sha256_of"]


def digest_of(data: bytes) -> str:
    """40 hexadecimal characters."""
    return blake2b(data, digest_size=20).hexdigest()


def sha256_of(data: bytes) -> str:
    """The SHA-256 of a small content, in hexadecimal; OpenSSL's is faster for a large one."""
    try:
        from _sha2 import sha256  # type: ignore[import-not-found]  # Python >= 3.12
    except ImportError:
        try:
            from _sha256 import sha256  # type: ignore[import-not-found]
        except ImportError:
            from hashlib import sha256
    digest: str = sha256(data).hexdigest()
    return digest
