"""The data in requests and responses: JSON, lists of properties, dates, and refusals with their HTTP status."""

from __future__ import annotations

import json
import time
from calendar import timegm
from collections.abc import Iterable, Mapping

DATE_FORMAT = "M/d/yyyy h:mm:ss tt"
_DATES = ("%m/%d/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%m/%d/%Y", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S")


class RequestRefused(Exception):
    """An error: the request is answered with this status and message, and has changed nothing."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, headers


def parse_json(body: bytes, kind: str) -> object:
    """Return the JSON value in the body of a request of the content type `kind`; None for no body. Raise RequestRefused
    if it is not JSON, is `null`, or has another content type."""
    if not body.strip():
        return None
    kind = kind.partition(";")[0].strip().lower()
    if kind not in ("application/json", "text/json"):
        raise RequestRefused(415, f"The request body is {kind}; it must be application/json.")
    try:
        found: object = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise RequestRefused(400, "The request body is not JSON.") from None
    if found is None:
        raise RequestRefused(400, "The request body is null.")
    return found


def _refuse_constant(word: str) -> float:
    raise ValueError(word)


def parse_property_list(body: object) -> dict[str, str]:
    """Return the names and values in a request's body `[{"Name": …, "Value": …}, …]` as a mapping. The two keys may be
    in any letter case. Return an empty mapping for no body. Raise RequestRefused if it is not of that form."""
    if body is None:
        return {}
    if not isinstance(body, list):
        raise RequestRefused(400, "The request body is not a list of properties, each with a Name and a Value.")
    return dict(_parse_property(item) for item in body)


def _parse_property(item: object) -> tuple[str, str]:
    if not isinstance(item, dict) or not all(isinstance(word, str) for word in item):
        raise RequestRefused(400, "A property is an object with a Name and a Value.")
    words = {word.lower(): value for word, value in item.items()}
    name, value = words.get("name"), words.get("value", "")
    if not isinstance(name, str) or not name:
        raise RequestRefused(400, "A property lacks its Name.")
    if value is not None and not isinstance(value, str):
        raise RequestRefused(400, f"The value of property {name} is not a string.")
    if "\0" in name or "\0" in (value or ""):
        raise RequestRefused(400, f"Property {name} holds a character that cannot be stored.")
    return name, value or ""


def to_property_list(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the properties `values` of a job, task or node in the form in which responses contain them: `[{"Name":
    "Id", "Value": "14"}, …]`."""
    return [{"Name": name, "Value": value} for name, value in values.items()]


def to_objects(rows: Iterable[Mapping[str, str]]) -> list[dict[str, list[dict[str, str]]]]:
    """Return several jobs, tasks or nodes, each a mapping of properties, in the form in which responses list them:
    `[{"Properties": [{"Name": …, "Value": …}, …]}, …]`."""
    return [{"Properties": to_property_list(row)} for row in rows]


def names_in(text: str | None) -> list[str]:
    """Return the names in a comma-separated list, without empty ones."""
    return [name for name in (part.strip() for part in (text or "").split(",")) if name]


def date_text(moment: float | None) -> str:
    """Return a Unix time as text of the form `M/d/yyyy h:mm:ss tt` in UTC, rounded down; "" for None."""
    if moment is None:
        return ""
    at = time.gmtime(moment)
    half = "AM" if at.tm_hour < 12 else "PM"
    hour = at.tm_hour % 12 or 12
    return f"{at.tm_mon}/{at.tm_mday}/{at.tm_year} {hour}:{at.tm_min:02d}:{at.tm_sec:02d} {half}"


def iso_text(moment: float) -> str:
    """Return a Unix time as text of the form `2020-02-29T12:17:02.726141+00:00`."""
    at = time.gmtime(moment)
    return f"{at.tm_year:04d}{time.strftime('-%m-%dT%H:%M:%S', at)}.{int(moment % 1 * 1_000_000):06d}+00:00"


def parse_date(text: str) -> float:
    """Return the Unix time of the date and time in `text`, in UTC if it contains no offset. Raise RequestRefused if it
    is no date."""
    plain = text.strip()
    for pattern in _DATES:
        try:
            return float(timegm(time.strptime(plain, pattern)))
        except (ValueError, OverflowError):
            continue
    from datetime import datetime, timezone

    try:
        found = datetime.fromisoformat(plain[:-1] + "+00:00" if plain[-1:] in ("Z", "z") else plain)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    except (ValueError, OverflowError):
        raise RequestRefused(400, f"{text!r} is not a date and time such as 2/29/2020 1:17:02 PM.") from None
