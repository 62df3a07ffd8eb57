"""Plain values out of pickles: what is read, what is refused, and that nothing is ever called or allocated."""

import os
import pickle
import struct
import sys
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from worldsize.wings.hangs.judgement.recorder import pickled_values
from worldsize.wings.hangs.judgement.recorder.pickled_values import NotReadable, read_pickle

NUMBERS = st.integers(-(2**63), 2**63) | st.floats(allow_nan=False)
PLAIN = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text("abc") | st.integers(0, 9), inner)
    ),
    max_leaves=20,
)


class Evil:
    def __reduce__(self):
        return pytest.fail, ("called",)


@given(PLAIN, st.integers(2, 5))
@settings(max_examples=200)
def test_plain_values_come_back(value, protocol):
    assert read_pickle(pickle.dumps(value, protocol)) == value


@given(PLAIN, st.integers(2, 5), st.data())
@settings(max_examples=200)
def test_damage_is_told_or_not_seen(value, protocol, data):
    whole = bytearray(pickle.dumps(value, protocol))
    whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        read_pickle(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except NotReadable:
        pass


@pytest.mark.parametrize("protocol", range(6))
def test_no_class_is_found_and_nothing_called(protocol):
    for value in (Evil(), {"entries": [Evil()]}, os.system, Exception, {1, 2}, b"bytes", 1j, 2**200):
        with pytest.raises(NotReadable):
            read_pickle(pickle.dumps(value, protocol))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b".",
        b"\x80\x02",
        b"\x80\x02}q",
        b"\x80\x02h\x07.",
        b"\x80\x02e.",
        b"\x80\x02]}s.",
        b"\x80\x02}](K\x01K\x02u.",
        b"\x80\x02X\xff\xff\xff\xffabc.",
        b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7fabc.",
        b"\x80\x02\x8a\xff" + b"\x01" * 255 + b".",
        b"cos\nsystem\n(S'id'\ntR.",
        b"\x80\x02\x82\x01.",
        b"PK\x03\x04",
    ],
)
def test_what_is_no_pickle_of_plain_values(data):
    with pytest.raises(NotReadable):
        read_pickle(data)


def test_a_memo_index_allocates_nothing():
    """Python's own unpickler makes a table of as many places."""
    data = b"\x80\x02]r" + struct.pack("<I", 2**31 - 1) + b"."
    tracemalloc.start()
    assert read_pickle(data) == []
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_marks_that_are_nested_are_refused_and_nested_values_harmless():
    with pytest.raises(NotReadable, match="nested too deep"):
        read_pickle(b"\x80\x02" + b"(" * 100_000 + b".")
    deep = 200_000
    value = read_pickle(b"\x80\x02" + b"]" * deep + b"a" * (deep - 1) + b".")
    assert isinstance(value, list) and sys.getrefcount(value) < 10


def test_a_nested_tuple_is_no_key():
    """Its hash would overflow the stack of C."""
    with pytest.raises(NotReadable):
        read_pickle(b"\x80\x02})" + b"\x85" * 500_000 + b"K\x01s.")


def test_a_large_file_is_refused(monkeypatch):
    monkeypatch.setattr(pickled_values, "MOST_BYTES", 2**20)
    with pytest.raises(NotReadable, match="longer than 1 MiB"):
        read_pickle(b"\x80\x02" + b"N" * 2**20)
