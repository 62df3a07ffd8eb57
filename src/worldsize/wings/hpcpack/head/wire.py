"""The conversion of values in requests and answers: property lists, pages, times. Pure.

One object is `[{"Name": "Id", "Value": "14"}, …]`, a list of them `[{"Properties": […]}, …]`; every value is text.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Iterable, Mapping
from time import strptime
from typing import Any

Properties = Mapping[str, str]
"""The properties of an object. The names are in lower case, since head nodes differ in how they write them."""

_TIMES = ("%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M:%S", "%Y-%m-%dT%H:%M:%S")
_FRACTION = re.compile(r"(?<=:\d\d)\.\d+")
_ZONE = re.compile(r"(?:Z|([+-])(\d\d):(\d\d))$")


def to_property_list(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the properties of one object as the list of {Name, Value} that the head node's REST API accepts."""
    return [{"Name": name, "Value": value} for name, value in values.items()]


def properties(value: Any) -> Properties:
    """Return the properties of one object (such as a job) in an answer of the head node, by name in lower case. Raise
    ValueError if the value is not a list of properties."""
    items = value.get("Properties") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise ValueError(f"not a list of properties: {value!r:.80}")
    found = {}
    for item in items:
        if not isinstance(item, dict) or not isinstance(item.get("Name"), str):
            raise ValueError(f"not a property: {item!r:.80}")
        found[item["Name"].lower()] = "" if item.get("Value") is None else str(item["Value"])
    return found


def rows(value: Any) -> list[Properties]:
    """Return the properties of each object of a list (such as jobs or tasks) in an answer of the head node. Raise
    ValueError if the value is not a list of objects."""
    if not isinstance(value, list):
        raise ValueError(f"not a list: {value!r:.80}")
    return [properties(item) for item in value]


def time_of(text: str) -> float | None:
    """Return the Unix seconds of a time, `M/d/yyyy h:mm:ss tt`, with 24 hours, or `yyyy-mm-ddThh:mm:ss`, with an
    optional fraction, which is ignored, and an optional zone, `Z` or `+hh:mm`, else in UTC; None for another text."""
    plain, ahead = _FRACTION.sub("", text.strip()), 0
    if zone := _ZONE.search(plain):
        sign, hours, minutes = zone.groups(default="0")
        plain, ahead = plain[: zone.start()], int(sign + "1") * (int(hours) * 3600 + int(minutes) * 60)
    for pattern in _TIMES:
        try:
            return float(timegm(strptime(plain, pattern)) - ahead)
        except ValueError:
            continue
    return None


def number_of(text: str) -> int | None:
    plain = text.strip()
    return int(plain) if re.fullmatch(r"-?[0-9]{1,18}", plain) else None


def items_of(value: str | Iterable[object]) -> list[str]:
    """Return the non-empty items of a list, or of a text that is separated by commas."""
    words = value.split(",") if isinstance(value, str) else map(str, value)
    return [word.strip() for word in words if word.strip()]
