"""Every ```console block of the documentation is run as a reader would type it, and prints what the page says."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from azureml_double.double import RESOLVER, Double
from azureml_double.fixtures import sign_in
from documents import PAGES, ROOT, Step, environment, matches, place_of, run_steps, steps
from other_packages import install_project

_ON_A_CLUSTER = ("first-cluster.md",)
"""Executed by tests/slurm."""

_WITH_STEPS = [
    page for page in PAGES if page.name not in _ON_A_CLUSTER and any(step.name is None for step in steps(page))
]
_SLOW = {
    "azure-job.md": 120,
    "azure-workspace.md": 240,
    "hpcpack.md": 240,
    "hpcpack-cluster.md": 240,
    "data-parallel.md": 240,
    "convert.md": 300,
    "rehearsal.md": 120,
}
"""Seconds for pages that train; the others have `_PATIENCE`."""

_WITH_MORE_TIME = {"convert.md": ("--check ", "--check --timeout 240 ")}
"""What a command says on a page, and what is typed on a machine that does much else meanwhile."""

_NEEDED = {"native-builds.md": "gcc"}
"""Programs of this machine that a page has something to say about."""

_INSTALLED = {"extending.md": ("toy-scheduler", "toy-launcher"), "scheduler.md": ("toy-scheduler",)}
"""Examples that a page has its reader install."""

_SHOWN_ELSEWHERE = ("data-parallel.md", "convert.md", "rehearsal.md", "extending.md", "selftest.md")
"""What these show, tests of what they are about show too."""

_WORKSPACE = {
    "00000000-0000-0000-0000-000000000000": Double.subscription,
    '"my-group"': '"%s"' % Double.group,
    '"my-workspace"': '"%s"' % Double.workspace,
    '"gpu-cluster"  ': '"cpu-cluster"\nendpoint = "ENDPOINT"  ',
}
"""What names the reader's workspace on azure-workspace.md, and what names the one that stands for it."""

_PATIENCE = 120
_MORE = 60
"""What a page may need besides its commands, in seconds, before pytest ends it."""


def _parameter(page: Path) -> object:
    marks = [pytest.mark.timeout(_SLOW.get(page.name, _PATIENCE) + _MORE)]
    if page.name in _SHOWN_ELSEWHERE:
        marks.append(pytest.mark.exhaustive)
    return pytest.param(page, id=place_of(page), marks=[*marks, pytest.mark.training] if page.name in _SLOW else marks)


@pytest.mark.parametrize("page", list(map(_parameter, _WITH_STEPS)))
def test_page_prints_what_it_says(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if shutil.which(_NEEDED.get(page.name, "sh")) is None:
        pytest.skip("no %s, of which the page tells" % _NEEDED[page.name])
    todo = steps(page)
    folder = tmp_path / "project"
    folder.mkdir()
    if page.name in _SLOW and any("examples/" in step.text for step in todo):
        (folder / "examples").symlink_to(ROOT / "examples")
    environ = environment(tmp_path / "home")
    for project in _INSTALLED.get(page.name, ()):
        install_project(ROOT / "examples" / project, tmp_path / "site")
        environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(tmp_path / "site")))
        environ["PATH"] = os.pathsep.join((str(tmp_path / "site" / "bin"), environ["PATH"]))
    if page.name == "azure-workspace.md":
        double: Double = request.getfixturevalue("double")
        environ.update(sign_in(double), PYTHONPATH=os.pathsep.join((environ["PYTHONPATH"], RESOLVER)))
        todo = [step._replace(text=_in_double(step.text, double)) if step.name else step for step in todo]
    if page.name in _WITH_MORE_TIME:
        todo = [step._replace(text=step.text.replace(*_WITH_MORE_TIME[page.name])) for step in todo]
    printed = run_steps(todo, folder, environ, _SLOW.get(page.name, _PATIENCE))
    wrong = [
        "%s:%d\n$ %s\n--- the page says\n%s--- it printed\n%s" % (page.name, step.line, step.text, step.printed, actual)
        for step, actual in zip(todo, printed, strict=True)
        if not matches(step.printed, actual)
    ]
    assert not wrong, "\n\n".join(wrong)


def _in_double(text: str, double: Double) -> str:
    for shown, meant in _WORKSPACE.items():
        text = text.replace(shown, meant)
    return text.replace("ENDPOINT", double.url)


def test_enough_pages_have_commands() -> None:
    assert len(_WITH_STEPS) >= 5


@pytest.mark.parametrize(
    ("expected", "actual", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "b\n", False),
        ("run … ended\n", "run 17 ended\n", True),
        ("run … ended\n", "run 17 failed\n", False),
        ("…\n", "", True),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a\n…\nd\n", "a\nb\nc\n", False),
        ("", "noise\n", False),
        ("", "notice: 4 ranks share this machine's 2 cores\n", True),
        ("", "notice: /dev/shm of here has 3.9 GiB, and resources.shm_size asks for 16 GiB\n", True),
        ("result.json\n", "result.json\nresult.json.spare\n", True),
        ("×2: hi\n", "0:1: hi\n0:0: hi\n", True),
        ("×2: hi\n", "0:1: hi\n0:0: ho\n", False),
        ("×2: hi\n", "0:0: hi\n", False),
        ("0:0: a\n0:0: b\n", "0:0: b\n0:0: a\n", False),
        ("×2: hi\n", "1: hi\n0: hi\n", True),
        ("×2: hi\n", "0: hi\n", False),
        ("0: a\n1: b\n×2: c\n", "1: b\n[0-1] ×2: c\n0: a\n", False),
        ("0: a\n1: b\n×2: c\n", "1: b\n0: a\n1: c\n0: c\n", True),
        ("[0-1,3] ×3: x\n1:2: y\n", "×4: x\n", False),
        ("[0-1,3] ×3: x\n1:2: y\n", "1:2: y\n1:3: x\n[0-1] ×2: x\n", True),
    ],
)
def test_comparison(expected: str, actual: str, same: bool) -> None:
    assert matches(expected, actual) is same


def test_a_shell_keeps_codes_and_files_between_steps(tmp_path: Path) -> None:
    todo = [
        Step("# a.sh\nexit 3\n", "", 1, "a.sh"),
        Step("sh a.sh", "", 2),
        Step("echo $?", "", 3),
        Step("x=$(echo 'two'\necho lines)", "", 4),
        Step('echo "$x" >&2', "", 5),
    ]
    assert run_steps(todo, tmp_path, environment(tmp_path / "home")) == ["", "", "3\n", "", "two\nlines\n"]
