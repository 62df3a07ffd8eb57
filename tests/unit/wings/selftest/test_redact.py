"""A report that strangers read: whatever a failure says, nobody learns who ran it, where, or on which machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worldsize.wings.selftest.redact import Known, leaks, redact

KNOWN = Known(
    users=("jdoe", "CORP\\jdoe"),
    hosts=("login3", "login3.hpc.example.org", "gpu-a017", "gpu-a018"),
    accounts=("proj4711",),
    home=("/home/jdoe", "/data/homes/jdoe"),
    runs=("/scratch/jdoe/selftest-x", "/home/jdoe/.worldsize/selftest-y"),
)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("no file /home/jdoe/data/x.txt", "no file $HOME/data/x.txt"),
        ("in /scratch/jdoe/selftest-x/tmp1/home/runs", "in $RUNS/tmp1/home/runs"),
        ("/home/jdoe/.worldsize/selftest-y", "$RUNS"),
        ("/home/jdoe2 is another's", "$PATH is another's"),
        ("gpu-a018 and GPU-A017, gpu-a018", "node1 and node2, node1"),
        ("login3.hpc.example.org said no", "node1 said no"),
        ("mail jane.doe+x@uni.example.edu now", "mail EMAIL now"),
        ("10.141.0.7:29500 refused", "ADDRESS:29500 refused"),
        ("at fe80::1ff:fe23:4567:890a", "at ADDRESS"),
        ("ether 52:54:00:12:34:56", "ether ADDRESS"),
        ("user CORP\\jdoe of proj4711", "user USER of ACCOUNT"),
        ("key 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "key TOKEN"),
        ("no \\\\HEAD\\CcpSpoolDir\\app here", "no $PATH here"),
        ("/usr/bin/python3 and /dev/shm stay", "/usr/bin/python3 and /dev/shm stay"),
        ("torch 2.13.0+cpu, Open MPI 4.1.4, 5.15.0-1042-azure", "torch 2.13.0+cpu, Open MPI 4.1.4, 5.15.0-1042-azure"),
        ("lifecycle.py:63: AssertionError: 3 != 4", "lifecycle.py:63: AssertionError: 3 != 4"),
        ("20261121-103158-417k3f is LOST", "20261121-103158-417k3f is LOST"),
    ],
)
def test_what_stands_for_what(text: str, made: str) -> None:
    assert redact(text, KNOWN) == made
    assert leaks(made, KNOWN) == []


def test_a_host_has_one_name_in_all_texts() -> None:
    names: dict[str, str] = {}
    assert redact("gpu-a018", KNOWN, names) == "node1"
    assert redact("login3, gpu-a018", KNOWN, names) == "node2, node1"


def test_secrets_by_their_shape_are_masked_too() -> None:
    made = redact("HF_TOKEN=hf_abcdefghijklmnopqrst https://me:pw@host.example/x", KNOWN)
    assert "abcdefghij" not in made and "pw@" not in made


SECRETS = [*KNOWN.users, *KNOWN.hosts, *KNOWN.accounts, *KNOWN.home, *KNOWN.runs, "a.b@c.org", "192.168.7.9", "/x/y"]
FILL = st.text(alphabet=st.sampled_from(" ,:;()[]'\"=<>\n/\\.-_$@ü×aZ09"), max_size=12)


@given(st.lists(st.tuples(FILL, st.sampled_from(SECRETS)), max_size=6), FILL)
def test_nothing_known_is_left_whatever_is_around_it(parts: list[tuple[str, str]], end: str) -> None:
    text = "".join(fill + secret for fill, secret in parts) + end
    made = redact(text, KNOWN)
    assert leaks(made, KNOWN) == [], made
    assert redact(made, KNOWN) == made


@given(st.text(max_size=200), st.lists(st.text(min_size=1, max_size=10), max_size=4))
def test_any_text_and_any_names(text: str, names: list[str]) -> None:
    known = Known(users=names[:2], hosts=names[2:], home=["/" + names[0]] if names else [])
    assert leaks(redact(text + " " + " ".join(names), known), known) == []


@pytest.mark.parametrize("name", ["node", "USER", "a", "\\", "$HOME", "node7", "/", ""])
def test_names_that_are_words_of_the_report_end_nothing(name: str) -> None:
    known = Known(users=[name], hosts=[name], accounts=[name], home=[name], runs=[name])
    assert isinstance(redact("node7 of USER in $HOME/a \\ ", known), str)
