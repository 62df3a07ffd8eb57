"""Archives of others, made up at random: nothing outside of where they are unpacked is ever changed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_strategies import fuzz
from test_archives import DIRECTORY, FILE, LINK, SYMLINK, Member, Place, a_zip

from worldsize.errors import UsageError

NAMES = ("a", "b", "..", ".", "")

plain = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map("/".join)
names = st.one_of(plain, plain, plain, st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map("/".join))
targets = st.one_of(names, st.tuples(st.integers(0, 4), names).map(lambda each: "../" * each[0] + each[1]))
modes = st.sampled_from((0o777, 0o4755, 0o000))


def in_order(drawn: list[tuple[Member, int]]) -> list[Member]:
    """Hard links are mostly made to what an earlier member has made."""
    found: list[Member] = []
    for member, earlier in drawn:
        known = [each.name for each in found if each.kind in (FILE, SYMLINK)]
        again = member.kind == LINK and earlier and known
        found.append(member._replace(link=known[earlier % len(known)]) if again else member)
    return found


member = st.builds(Member, st.sampled_from((FILE, DIRECTORY, SYMLINK, SYMLINK, LINK)), names, targets, modes)
members = st.lists(st.tuples(member, st.integers(0, 5)), min_size=3, max_size=10).map(in_order)


@pytest.mark.heavy
@fuzz
@given(members, st.booleans())
def test_nothing_outside_is_ever_changed(members: list[Member], gone_on: bool) -> None:
    """`gone_on`: members that are refused are left out, so that those after them are tried, too."""
    with tempfile.TemporaryDirectory() as root:
        kept: list[Member] = []
        for member in members if gone_on else ():
            with tempfile.TemporaryDirectory() as trial:
                try:
                    Place(Path(trial)).unpack_tar([*kept, member])
                    kept.append(member)
                except UsageError:
                    pass
        try:
            Place(Path(root)).unpack_tar(kept if gone_on else members)
        except UsageError:
            pass


@pytest.mark.filterwarnings("ignore:Duplicate name")
@fuzz
@given(st.lists(names, max_size=6))
def test_no_zip_file_changes_anything_outside(listed: list[str]) -> None:
    with tempfile.TemporaryDirectory() as root:
        place = Place(Path(root))
        try:
            place.unpack(a_zip(place.root, [name for name in listed if name]))
        except UsageError:
            pass
