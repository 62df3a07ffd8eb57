"""URLs: what may be shown of them, and what of them is a secret."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit, urlunsplit

from worldsize.trust.secrets import mask_tokens_in_paths


def shown(url: str) -> str:
    """The URL for people: without user, password, query, fragment and the tokens in paths of conda's servers."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return mask_tokens_in_paths(urlunsplit((parts.scheme, host, parts.path, "", ""))) + ("?…" if parts.query else "")


def without_user(url: str) -> tuple[str, str]:
    """The URL without user and password, and the header that stands for them, or ""."""
    parts = urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    if not at:
        return url, ""
    from base64 import b64encode

    name, _, password = user.partition(":")
    token = b64encode(("%s:%s" % (unquote(name), unquote(password))).encode()).decode()
    return urlunsplit(parts._replace(netloc=host)), "Basic " + token
