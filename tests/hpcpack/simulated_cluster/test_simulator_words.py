"""Pure parts of the simulator: dates, filters, sweeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize_hpcpack_simulator.api.paging import parse_filter
from worldsize_hpcpack_simulator.scheduler.sweep import with_index
from worldsize_hpcpack_simulator.wire import RequestRefused, date_text, iso_text, parse_date, parse_property_list

pytestmark = pytest.mark.exhaustive

MOMENTS = st.integers(0, 2**33)


@given(MOMENTS)
def test_a_date_is_read_as_it_was_written(moment: int) -> None:
    assert parse_date(date_text(moment)) == moment == parse_date(iso_text(moment))


@pytest.mark.parametrize(
    "text", ["02/29/2020 13:17:02", "2/29/2020 1:17:02 PM", "2020-02-29T13:17:02Z", "2020-02-29T14:17:02.0+01:00"]
)
def test_all_ways_to_write_a_date(text: str) -> None:
    assert parse_date(text) == 1582982222


def test_midnight_and_noon() -> None:
    assert [date_text(0), date_text(43200), date_text(3599), date_text(None)] == [
        *("1/1/1970 12:00:00 AM", "1/1/1970 12:00:00 PM", "1/1/1970 12:59:59 AM", ""),
    ]


def test_years_have_four_digits() -> None:
    assert iso_text(parse_date("0747-08-16T02:41:09Z")) == "0747-08-16T02:41:09.000000+00:00"


@pytest.mark.parametrize("text", ["", "soon", "13/13/2020", "2020-13-01T00:00:00Z", "9" * 400])
def test_what_is_no_date(text: str) -> None:
    with pytest.raises(RequestRefused):
        parse_date(text)


@given(st.integers(0, 9999), st.integers(1, 6))
def test_stars_give_leading_zeros(index: int, stars: int) -> None:
    assert with_index("a%sb" % ("*" * stars), index) == "a%sb" % str(index).zfill(stars)


def test_filters() -> None:
    found = parse_filter(
        "jobstate eq Running AND ChangeTimeFrom eq 1/2/2020 3:04:05 PM", ("JobState", "ChangeTimeFrom")
    )
    assert found == {"JobState": "Running", "ChangeTimeFrom": "1/2/2020 3:04:05 PM"}
    assert parse_filter("", ("A",)) == parse_filter(None, ("A",)) == {}


@given(
    st.recursive(st.none() | st.text() | st.integers(), lambda some: st.lists(some) | st.dictionaries(st.text(), some))
)
def test_any_json_is_properties_or_refused(body: object) -> None:
    try:
        found = parse_property_list(body)
    except RequestRefused as error:
        assert error.status == 400
    else:
        assert all(isinstance(value, str) for value in found.values())
