"""SHA-256 of small contents, without hashlib, which loads all of OpenSSL and takes 3 ms of each start. Python >=
3.8."""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python >= 3.12
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found]
    except ImportError:
        from hashlib import sha256

__all__ = ["sha256"]
