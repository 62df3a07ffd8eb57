"""A compute of another package that does not do what it owes: one sentence that names the package, and the function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from other_packages import write_package

from worldsize.compute.base import ComputeFacts, Submission
from worldsize.errors import ConfigError, SubmitAgain, WorldsizeError
from worldsize.jobspec.job import Job
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.state.records import Observation
from worldsize.wings.plugins.compute import make_external_compute

ID = "20261126-120000-000000"
PLAN = Plan(ID, "t", "lab", 1.0, 0, node_major_layout(1, 1), ("true",), {})
PATHS = RunPaths("/runs/" + ID)
SUBMISSION = Submission(PLAN, PATHS, "")
HANDLE = {"type": "own", "job": 3, "run_id": ID}
GIVEN: dict[str, tuple[Any, ...]] = {
    "facts": (Job(),),
    "check": (Job(), PLAN),
    "render": (Job(), PLAN, PATHS, dict),
    "submit": ([SUBMISSION],),
    "observe": ([HANDLE],),
    "pause": (1.0,),
    "cancel": ([HANDLE],),
    "end_remains": (HANDLE,),
}
"""What each of the methods is called with."""


class Own:
    """Whatever it is called for, it does `act`."""

    name = "lab"
    capabilities: Any = frozenset()

    def __init__(self, act: Callable[[], Any]) -> None:
        self.facts = self.check = self.render = self.submit = self._acting(act)
        self.observe = self.pause = self.cancel = self.end_remains = self.nodes = self._acting(act)

    def _acting(self, act: Callable[[], Any]) -> Any:
        return lambda *given: act()


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path, "own-compute", "[worldsize.computes]\nown = own_compute\n")
    monkeypatch.syspath_prepend(tmp_path)


def opened(made: Any) -> Any:
    return make_external_compute("own", "open_compute", lambda: made, "compute.lab.type")


def failing(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def refusal(act: Callable[[], Any]) -> str:
    with pytest.raises(WorldsizeError) as caught:
        act()
    assert caught.value.where == "compute.lab.type"
    whose = "the compute type own of own-compute 1 (own_compute) "
    assert caught.value.what.startswith(whose)
    return caught.value.what[len(whose) :]


@pytest.mark.parametrize("method", GIVEN)
def test_whatever_a_method_raises(method: str) -> None:
    compute = opened(Own(failing(KeyError("x"))))
    assert refusal(lambda: getattr(compute, method)(*GIVEN[method])) == "failed in %s: KeyError: 'x'" % method


@pytest.mark.parametrize("method", GIVEN)
def test_an_error_of_worldsizes_and_an_interrupt_are_left_as_they_are(method: str) -> None:
    for error in (SubmitAgain("later"), KeyboardInterrupt()):
        with pytest.raises(type(error)):
            getattr(opened(Own(failing(error))), method)(*GIVEN[method])


@pytest.mark.parametrize(
    ("method", "made"),
    [
        *((method, None) for method in GIVEN if method != "cancel"),
        ("check", ["x"]),
        ("submit", []),
        ("submit", [5]),
        ("submit", [{**HANDLE, "type": "toy"}]),
        ("submit", [{**HANDLE, "run_id": "another"}]),
        ("submit", [{**HANDLE, "job": "x y"}]),
        ("submit", [{**HANDLE, "more": object()}]),
        ("submit", [HANDLE, HANDLE]),
        ("observe", []),
        ("observe", ["running"]),
        ("observe", [Observation("asleep")]),
        ("pause", float("nan")),
        ("pause", -1),
    ],
)
def test_what_a_method_returns_that_is_not_right(method: str, made: Any) -> None:
    compute = opened(Own(lambda: made))
    assert refusal(lambda: getattr(compute, method)(*GIVEN[method])).startswith("failed: %s returned " % method)


def test_what_is_right_is_returned_as_it_is() -> None:
    facts = ComputeFacts(gpus_per_node=2)
    assert opened(Own(lambda: facts)).facts(Job()) is facts
    assert opened(Own(lambda: [HANDLE])).submit([SUBMISSION]) == [HANDLE]
    assert opened(Own(lambda: 0)).pause(1.0) == 0


def test_what_is_no_compute() -> None:
    assert "open_compute returned a NoneType, which lacks name, capabilities, facts" in refusal(lambda: opened(None))


@pytest.mark.parametrize(
    ("claimed", "says"),
    [
        (5, "failed: capabilities returned 5, which is not a set of words"),
        ({"nodes", "exec"}, "lacks execute, shell, group_noun, which its capabilities claim"),
    ],
)
def test_capabilities_that_it_has_not(claimed: Any, says: str) -> None:
    own = Own(lambda: None)
    own.capabilities = claimed
    assert refusal(lambda: opened(own)) == says


def test_what_only_capabilities_have_is_called_like_the_rest() -> None:
    own: Any = Own(failing(ValueError("no")))
    own.capabilities, own.group_noun = {"nodes"}, "racks"
    compute = opened(own)
    assert compute.group_noun == "racks" and compute.capabilities == {"nodes"}
    assert refusal(compute.nodes) == "failed in nodes: ValueError: no"


def test_what_a_callback_of_ours_raises_is_no_failure_of_the_computes() -> None:
    class Known(Exception):
        pass

    own: Any = Own(lambda: None)
    own.observe = lambda handles, idle: idle()
    with pytest.raises(Known):
        opened(own).observe([HANDLE], failing(Known()))


def test_only_before_a_run_exists_it_is_the_configurations_fault() -> None:
    compute = opened(Own(failing(KeyError("x"))))
    for method, given in GIVEN.items():
        with pytest.raises(WorldsizeError) as caught:
            getattr(compute, method)(*given)
        assert isinstance(caught.value, ConfigError) == (method in ("facts", "check", "render"))
