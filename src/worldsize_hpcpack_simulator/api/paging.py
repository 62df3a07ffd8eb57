"""The filters, the order and the two kinds of paging of lists."""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from worldsize_hpcpack_simulator.wire import RequestRefused

QUERY_ID, ROW_COUNT = "x-ms-continuation-queryId", "x-ms-row-count"
ROWS = 10
_MAX_ANSWERS = 1000
_CLAUSE = re.compile(r"\s*(\w+)\s+eq\s+(.*?)\s*", re.IGNORECASE | re.DOTALL)
T = TypeVar("T")


class Page(NamedTuple):
    """A page of a list: its rows, as keys that stay valid, and the header of the answer."""

    keys: Sequence[tuple[int, ...]]
    headers: Mapping[str, str]


class Pages:
    """The remaining rows of lists that were not read to their end. A page can be requested again."""

    def __init__(self) -> None:
        self._rest: OrderedDict[str, tuple[str, Sequence[tuple[int, ...]]]] = OrderedDict()

    def page(self, what: str, query: Mapping[str, str], keys: Callable[[], Sequence[tuple[int, ...]]]) -> Page:
        """Return the Page of a list that the query requests, by row number (`startRow`) or by query id. `what` names
        the list: a query id belongs to one list. `keys` computes the keys of all its rows. Raise RequestRefused if the
        query id is unknown."""
        rows = parse_number(query, "rowsPerRead", ROWS, 1)
        if "startrow" in query:
            found = keys()
            start = parse_number(query, "startRow", 0, 0)
            return Page(found[start : start + rows], {ROW_COUNT: str(len(found))})
        found = self._remaining_keys(what, query["queryid"]) if query.get("queryid") else keys()
        rest = found[rows:]
        return Page(found[:rows], {QUERY_ID: self._keep(what, rest)} if rest else {})

    def _keep(self, what: str, keys: Sequence[tuple[int, ...]]) -> str:
        name = secrets.token_hex(12)
        self._rest[name] = (what, keys)
        if len(self._rest) > _MAX_ANSWERS:
            self._rest.popitem(last=False)
        return name

    def _remaining_keys(self, what: str, name: str) -> Sequence[tuple[int, ...]]:
        kept, keys = self._rest.get(name, ("", ()))
        if kept != what:
            raise RequestRefused(400, "There is no such query id; it may have expired.")
        return keys


def parse_number(query: Mapping[str, str], name: str, default: int, least: int) -> int:
    """Return the whole number in a request's query parameter `name`; `default` if it is missing. Raise RequestRefused
    if it is no whole number, or below `least`."""
    text = query.get(name.lower())
    if text is None:
        return default
    try:
        number = float(text)
        value = int(number)
    except (ValueError, OverflowError):
        raise RequestRefused(400, f"{text!r} is not a number for {name}.") from None
    if value != number or value < least:
        raise RequestRefused(400, f"{name} is a whole number of at least {least}, not {text}.")
    return value


def parse_flag(query: Mapping[str, str], name: str, default: bool) -> bool:
    """Return the flag in a request's query parameter `name`; `default` if it is missing. Raise RequestRefused if it is
    neither true nor false."""
    text = query.get(name.lower())
    if text is None:
        return default
    if text.lower() not in ("true", "false"):
        raise RequestRefused(400, f"{name} is true or false, not {text!r}.")
    return text.lower() == "true"


def parse_filter(text: str | None, known: Sequence[str]) -> dict[str, str]:
    """Parse the query parameter `$filter` of a request: `A eq x and B eq y` results in {"A": "x", "B": "y"}. `known`
    are the names of filters. Raise RequestRefused if it is not of that form, or names an unknown filter."""
    found: dict[str, str] = {}
    names = {name.lower(): name for name in known}
    for part in re.split(r"\s+and\s+", text, flags=re.IGNORECASE) if text and text.strip() else []:
        match = _CLAUSE.fullmatch(part)
        if match is None:
            raise RequestRefused(400, f"{part!r} is not a filter of the form: NAME eq VALUE.")
        if match[1].lower() not in names:
            raise RequestRefused(400, f"There is no filter {match[1]}; there are {', '.join(known)}.")
        found[names[match[1].lower()]] = match[2].strip("'\"")
    return found


def sort_by_property(items: Sequence[T], key: Callable[[T], str], ascending: bool) -> list[T]:
    """Return `items` sorted by the property that `key` returns: as numbers if all of its values are numbers, else as
    text. Items of equal value keep their order."""
    values = [key(item) for item in items]
    if all(value.isascii() and value.isdigit() for value in values):
        return sorted(items, key=lambda item: int(key(item)), reverse=not ascending)
    return sorted(items, key=lambda item: key(item).lower(), reverse=not ascending)
