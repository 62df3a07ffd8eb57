"""Small words for people: spans of time, signals, users."""

from __future__ import annotations

_UNITS = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(seconds: float) -> str:
    """Two units at most: "2 min 3 s", "1 d 4 h", "0 s"."""
    left, words = int(seconds), []
    for size, unit in _UNITS:
        count, left = divmod(left, size)
        if count:
            words.append("%d %s" % (count, unit))
    return " ".join(words[:2]) or "0 s"


def signal_name(number: int) -> str:
    """ "9 (KILL)"; the number alone where it has no name."""
    import signal

    try:
        return "%d (%s)" % (number, signal.Signals(number).name[3:])
    except ValueError:
        return str(number)


def user_name(uid: int) -> str:
    """The login name; "uid 1000" where this machine knows none."""
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "uid %d" % uid
