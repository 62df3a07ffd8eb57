"""Search for the valid word that a wrong one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_word(word: str, valid: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the entry of `valid` that is the most similar to `word`; None if none is similar enough (`cutoff`, up to
    1). Case is ignored."""
    import difflib

    choices = {choice.lower(): choice for choice in valid}
    found = difflib.get_close_matches(word[:100].lower(), choices, n=1, cutoff=cutoff)
    return choices[found[0]] if found else None


def did_you_mean(word: str, valid: Iterable[str], otherwise: str = "one of") -> str | None:
    """Return a hint for the wrong word `word`: "did you mean …?" with the nearest of the `valid` words or, if none is
    similar, `otherwise` with all of them if they are at most 40; None if there is no hint."""
    choices = list(valid)
    close = nearest_word(word, choices)
    if close:
        return f"did you mean {close!r}?"
    if not choices:
        return None
    return f"{otherwise}: {', '.join(choices)}" if len(choices) <= 40 else None
