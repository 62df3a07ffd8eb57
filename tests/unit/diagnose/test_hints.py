"""Hints: each known message has its advice, and a message that is only alike has none."""

import pytest

from worldsize.diagnose.hints import HINTS, REHEARSAL_HINTS, hint_for

SAID = {
    "RuntimeError: CUDA error: invalid device ordinal\nCUDA kernel errors might be reported later": "LOCAL_RANK",
    "DistBackendError: Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 4000": "GPU of its own",
    "ValueError: Attempt to convert a value (PerReplica:{\n  0: <tf.Tensor>})": "tf-keras",
}
SAID_IN_REHEARSALS = {
    "FileNotFoundError: [Errno 2] No such file or directory: '/tmp/data/x'": "/tmp of its own",
    "OSError: [Errno 101] Network is unreachable": "stage:",
}


@pytest.mark.parametrize("rehearsal", [False, True])
@pytest.mark.parametrize("said", SAID)
def test_a_known_message_has_its_advice(said, rehearsal):
    assert SAID[said] in hint_for(said, rehearsal)


@pytest.mark.parametrize("said", SAID_IN_REHEARSALS)
def test_what_only_a_rehearsal_does_is_explained_there_alone(said):
    assert SAID_IN_REHEARSALS[said] in hint_for(said, rehearsal=True)
    assert hint_for(said) is None


def test_a_message_that_is_only_alike_has_none():
    for said in ("ValueError: Attempt to convert a value (None)", "RuntimeError: CUDA out of memory", ""):
        assert hint_for(said, rehearsal=True) is None


def test_every_hint_is_tried_here():
    said = {hint_for(each, rehearsal=True) for each in (*SAID, *SAID_IN_REHEARSALS)}
    assert said == {hint.advice for hint in (*HINTS, *REHEARSAL_HINTS)}
