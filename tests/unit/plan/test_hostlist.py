"""Slurm's folded node names: expanded without scontrol, folded again, nonsense refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.plan.hostlist import MAX_NAMES, expand_hostlist, fold_hostlist


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", []),
        ("node1", ["node1"]),
        ("node[1-3]", ["node1", "node2", "node3"]),
        ("n[1-3,7],gpu01", ["n1", "n2", "n3", "n7", "gpu01"]),
        ("gpu[08-11]", ["gpu08", "gpu09", "gpu10", "gpu11"]),
        ("gpu[008-010,100]", ["gpu008", "gpu009", "gpu010", "gpu100"]),
        ("n[9-11]", ["n9", "n10", "n11"]),
        ("a[1-2]b[3,5]", ["a1b3", "a1b5", "a2b3", "a2b5"]),
        ("rack[1-2]-n[01-02].cluster.example", [f"rack{r}-n{n}.cluster.example" for r in (1, 2) for n in ("01", "02")]),
        ("r1i[0-1]n[0-1], login", ["r1i0n0", "r1i0n1", "r1i1n0", "r1i1n1", "login"]),
        ("c3-[1,3],c3-7", ["c3-1", "c3-3", "c3-7"]),
        ("node[5]", ["node5"]),
        ("node[3-3]", ["node3"]),
        ("n1,n1", ["n1", "n1"]),
        (" n1 ", ["n1"]),
    ],
)
def test_expand(text: str, names: list[str]) -> None:
    assert expand_hostlist(text) == names


@pytest.mark.parametrize(
    "text",
    [
        "n[1-3",
        "n1-3]",
        "n[]",
        "n[a-b]",
        "n[3-1]",
        "n[1-]",
        "n[-2]",
        "n[1,,2]",
        "n[1-2-3]",
        "n[1-010]",
        "n1,,n2",
        ",n1",
        "n1,",
        "n1 n2",
        "[]",
        "(null)",
        "None assigned",
        "n[[1-2]]",
        "n[1 - 2]",
        "n$1",
        "n1;rm",
    ],
)
def test_nonsense_is_an_error_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match="is not a list of nodes") as error:
        expand_hostlist(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("text", ["n[0-99999999]", "n[1-1000]x[1-1000]", "n[1-65536],m1", "n[0-999999999999999999]"])
def test_a_text_for_too_many_nodes_is_refused_before_it_is_expanded(text: str) -> None:
    with pytest.raises(ValueError, match=str(MAX_NAMES)):
        expand_hostlist(text)


def test_the_limit_itself_is_allowed() -> None:
    assert len(expand_hostlist("n[1-65536]")) == MAX_NAMES


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["node1"], "node1"),
        (["node3", "node1", "node2", "node2"], "node[1-3]"),
        (["n10", "n9", "n2"], "n[2,9-10]"),
        (["gpu10", "gpu09", "gpu08"], "gpu[08-10]"),
        (["n8", "n08", "n10"], "n[08,10],n8"),
        (["n1", "gpu01", "n2", "n3", "n7"], "gpu01,n[1-3,7]"),
        (["login", "login1"], "login,login1"),
        (["n1.site.edu", "n2.site.edu"], "n[1-2].site.edu"),
        (["r1n1-ib", "r1n2-ib", "r2n1-ib"], "r1n[1-2]-ib,r2n1-ib"),
        (["n2", "n10", "m3"], "m3,n[2,10]"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.1,10.0.0.2"),
    ],
)
def test_fold(names: list[str], text: str) -> None:
    assert fold_hostlist(names) == text


@pytest.mark.parametrize("name", ["", "n[1]", "n1,n2", "n 1", "n1\n", "n" + "1" * 5000, "1" * 5000 + "n1"])
def test_what_is_no_name_cannot_be_folded(name: str) -> None:
    with pytest.raises(ValueError, match="not a node's name"):
        fold_hostlist(["n1", name])


_NAMES = st.lists(
    st.one_of(
        st.from_regex(r"\A[a-c]{0,2}[0-9]{1,3}(-ib|\.x1)?\Z"),
        st.from_regex(r"\A[A-Za-z0-9._-]{1,12}\Z"),
        st.from_regex(r"\A[ab][01]{1,3}[cd][0-9]{1,2}\Z"),
    ),
    max_size=60,
)


@given(_NAMES)
def test_folded_names_expand_to_the_same_names_each_once(names: list[str]) -> None:
    again = expand_hostlist(fold_hostlist(names))
    assert sorted(again) == sorted(set(names))


@given(_NAMES)
def test_folding_depends_on_the_names_and_not_on_their_order(names: list[str]) -> None:
    assert (
        fold_hostlist(names) == fold_hostlist(reversed(names)) == fold_hostlist(expand_hostlist(fold_hostlist(names)))
    )


@given(st.text(alphabet="ab012-,[]. x", max_size=25))
def test_any_text_is_expanded_or_refused(text: str) -> None:
    try:
        names = expand_hostlist(text)
    except ValueError:
        return
    assert all(name and not set(name) & set("[], ") for name in names)
