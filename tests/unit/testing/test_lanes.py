"""The tests' own runner, on small suites: tiers, parts, the second try, the last failures, the time limit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from _pytest.mark.expression import Expression
from scripts.testing import __main__ as command_line
from scripts.testing import lanes
from scripts.testing.lanes import Lane, Selection, last_failed, run_selection

pytestmark = pytest.mark.slow

SETTINGS = """
[pytest]
markers = exhaustive: x
    timing: x
    chaos: x
    slurm: x
    training: x
    slow: x
    heavy: x
    quick: x
    long: x
"""
TRAINING = Lane("training", "training and not timing", ("-p", "no:xdist"))
FILES = {"others": "tests/unit/test_a.py", "training": "tests/frameworks/test_c.py"}
TIMING = Lane("timing", "timing", ("-p", "no:xdist"), stage=lanes.ALONE)
LONG = """
import pytest

@pytest.fixture(scope="module")
def shared():
    yield

def test_short(shared): pass

@pytest.mark.long(minutes=10)
def test_long(shared): pass
"""
UNSTABLE = """
from pathlib import Path

def test_second_time():
    seen = Path(__file__).with_suffix(".seen")
    if not seen.exists():
        seen.touch()
        raise AssertionError("the first time")
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with tests of its own, whose closing line is in `summary`."""
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    write(tmp_path, "tests/conftest.py", 'pytest_plugins = ["selection"]\n')
    monkeypatch.setattr(lanes, "ROOT", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
    monkeypatch.setenv("WORLDSIZE_TEST_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.delenv("WORLDSIZE_TEST_OUTCOMES", raising=False)
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST", "PYTEST_XDIST_WORKER_COUNT"):
        monkeypatch.delenv(name, raising=False)
    # Of the plug-ins that are installed, only the one that is needed: loading all of them takes a second.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setattr(lanes, "LANES", (Lane("others", "not slurm", ("-p", "no:xdist")),))
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def closing(suite: Path) -> str:
    return (suite / "summary").read_text().splitlines()[-1].partition(" in ")[0]


def test_an_unstable_test_is_named_and_the_command_succeeds(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    shared = Lane("others", "not training and not timing", ("-n", "1"))
    monkeypatch.setattr(lanes, "LANES", (shared, TRAINING, TIMING))
    write(suite, "tests/e2e/test_a.py", UNSTABLE)
    write(suite, "tests/e2e/test_b.py", "import pytest\n@pytest.mark.timing\ndef test_alone(): pass\n")
    write(suite, "tests/frameworks/test_c.py", "def test_trains(): pass\n")
    assert run_selection(Selection(), []) == 0
    assert closing(suite) == "==== 2 passed, 1 unstable: tests/e2e/test_a.py::test_second_time"
    printed = capfd.readouterr().out
    assert "the first time" in printed
    assert "==> training\n" in printed and "==> others\n" in printed
    assert last_failed() == []


def test_the_quick_tests_come_first_and_the_tier_fast_is_these(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    quick = Lane("quick 1", "quick", ("-p", "no:xdist"), found="^tests/unit/", stage=lanes.QUICK)
    monkeypatch.setattr(lanes, "LANES", (TIMING, Lane("others", "not quick", ("-p", "no:xdist")), quick))
    write(suite, "tests/unit/test_a.py", "import pytest\ndef test_a(): pass\n@pytest.mark.heavy\ndef test_b(): pass\n")
    write(suite, "tests/e2e/test_c.py", "def test_c(): pass\n")
    assert run_selection(Selection("fast"), []) == 0
    assert closing(suite) == "==== 1 passed"
    capfd.readouterr()
    assert run_selection(Selection(), []) == 0
    assert closing(suite) == "==== 3 passed"
    printed = capfd.readouterr().out
    assert printed.index("1 passed, 1 deselected") < printed.index("2 passed, 1 deselected")


STUCK = """
import threading
pytest_plugins = ["selection"]

def pytest_sessionfinish(session):
    if "test_a" in str(session.config.args) and hasattr(session.config, "workerinput"):
        wait_for_ever()

def wait_for_ever():
    threading.Event().wait()
"""


@pytest.mark.exhaustive(unless=["pass"])
@pytest.mark.parametrize("outcome", ["pass", "assert False"])
def test_pytest_that_does_not_end_is_ended(
    suite: Path, outcome: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """One call with workers did so once, until CI's limit for its test; its stacks would have told why."""
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(lanes, "LANES", (Lane("others", "not training", ("-n", "1")), TRAINING))
    monkeypatch.setattr(lanes, "PROGRESS_SECONDS", 0.5)
    write(suite, "tests/conftest.py", STUCK)
    write(suite, "tests/unit/test_a.py", "def test_a(): %s\n" % outcome)
    write(suite, "tests/frameworks/test_c.py", "def test_trains(): pass\n")
    monkeypatch.setattr(lanes, "files_of", lambda lane, selection: [FILES[lane.name]])
    assert run_selection(Selection(), []) == (outcome != "pass")
    assert closing(suite) == ("==== 2 passed" if outcome == "pass" else "==== 1 failed, 1 passed")
    printed = capfd.readouterr().out
    assert "==> others: all tests have ended, and pytest has not" in printed and "in wait_for_ever" in printed
    assert outcome == "pass" or "E   assert False" in printed


@pytest.mark.parametrize(
    ("name", "mark"),
    [("tests/unit/test_a.py", ""), ("tests/e2e/test_a.py", "import pytest\npytestmark = pytest.mark.chaos\n")],
)
def test_a_test_of_logic_or_of_chaos_has_no_second_try(suite: Path, name: str, mark: str) -> None:
    write(suite, name, mark + UNSTABLE)
    assert run_selection(Selection(), []) == 1
    assert closing(suite) == "==== 1 failed"


def test_tiers_parts_and_the_last_failures(suite: Path) -> None:
    write(suite, "tests/unit/test_a.py", "def test_good(): pass\ndef test_bad(): assert False\n")
    write(suite, "tests/docs/test_b.py", "import pytest\n@pytest.mark.exhaustive\ndef test_more(): pass\n")
    assert run_selection(Selection("all"), []) == 1
    assert closing(suite) == "==== 1 failed, 2 passed"
    assert run_selection(Selection("all", ("docs",)), []) == 0
    assert closing(suite) == "==== 1 passed"
    assert run_selection(Selection("standard", ("docs",)), []) == 5
    assert run_selection(Selection("rest"), []) == 0
    assert command_line.main(["standard", "--last-failed"]) == 1
    assert closing(suite) == "==== 1 failed"
    write(suite, "tests/unit/test_a.py", "def test_good(): pass\ndef test_bad(): pass\n")
    assert command_line.main(["standard", "--last-failed"]) == 0
    assert closing(suite) == "==== 1 passed"
    assert command_line.main(["standard", "--last-failed"]) == 0
    assert last_failed() == []


def test_the_order_and_the_time_limit(suite: Path) -> None:
    write(suite, "tests/e2e/test_a.py", "def test_a(): pass\n")
    write(suite, "tests/e2e/test_b.py", "import time\ndef test_1(): time.sleep(2)\ndef test_2(): pass\n")
    order = ("tests/e2e/test_b.py", "tests/e2e/test_a.py")
    assert run_selection(Selection("all", order=order), []) == 0
    assert closing(suite) == "==== 3 passed"
    assert run_selection(Selection("all", order=order, minutes=0.0), [], "changed") == 0
    assert closing(suite) == "==== changed: 3 left out for want of time"


def test_a_test_may_follow_one_for_which_no_time_is_left(suite: Path) -> None:
    """What the one before had kept for that one is taken down all the same."""
    write(suite, "tests/e2e/test_a.py", LONG)
    write(suite, "tests/e2e/test_b.py", "def test_b(): pass\n")
    assert run_selection(Selection("all", minutes=5.0), []) == 0
    assert closing(suite) == "==== 2 passed, 1 left out for want of time"


def test_what_cannot_be_collected_fails(suite: Path) -> None:
    write(suite, "tests/e2e/test_a.py", "import no_such_module\n")
    write(suite, "tests/e2e/test_b.py", "def test_b(): pass\n")
    assert run_selection(Selection(), []) != 0
    assert "1 errors" in closing(suite)


MARKS = """
import json, pytest

class Marks:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print(json.dumps([item.nodeid, [mark.name for mark in item.iter_markers()]]))

pytest.main(["--collect-only", "-q", "-s", "-p", "no:cacheprovider", "tests"], plugins=[Marks()])
"""


@pytest.mark.exhaustive
@pytest.mark.timeout(600)
def test_each_test_is_in_one_lane() -> None:
    """A lane imports only the files that may hold its tests; none may be overlooked."""
    done = subprocess.run([sys.executable, "-c", MARKS], cwd=lanes.ROOT, capture_output=True, text=True, check=True)
    tests = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["tests/')]
    files = {lane.name: set(lanes.files_of(lane, Selection())) for lane in lanes.LANES}

    def lanes_of(name: str, marks: list[str]) -> list[str]:
        found = [lane for lane in lanes.LANES if name.split("::")[0] in files[lane.name]]
        return [
            lane.name for lane in found if Expression.compile(lane.markers).evaluate(lambda mark, **_: mark in marks)
        ]

    found = {name: lanes_of(name, marks) for name, marks in tests}
    assert not [each for each in found.items() if len(each[1]) != 1]
    assert len(found) > 4000


def test_a_change_that_affects_no_test_of_the_tier_is_no_failure(suite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(suite, "tests/e2e/test_a.py", "def test_a(): pass\n")
    monkeypatch.setattr(command_line, "changed_files", lambda base: [])
    monkeypatch.setattr(command_line, "affected_tests", lambda changed: ["tests/e2e/test_a.py"])
    assert command_line.main(["changed", "--base", "abc", "--rest"]) == 0
    assert closing(suite) == "==== changed: no tests ran"
    assert command_line.main(["changed", "--base", "abc"]) == 0
    assert closing(suite) == "==== changed: 1 passed"


def test_mistakes_are_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line.main(["changed"]) == 2
    assert command_line.main(["changed", "--base", "no-such-commit"]) == 2
    assert "no-such-commit" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        command_line.main(["standard", "--part", "nothing"])


def test_every_folder_of_tests_belongs_to_a_part() -> None:
    import selection

    folders = {path.relative_to(selection.TESTS).parts[0] for path in selection.TESTS.rglob("test_*.py")}
    assert folders <= {*selection.PARTS, "chaos", "conformance"}
    assert [selection.part_of("tests/chaos/test_%s.py::x" % each) for each in ("local", "slurm")] == ["local", "slurm"]
    assert set(selection.PARTS.values()) == set(command_line.PARTS)
    assert json.dumps(selection.part_of("tests/conformance/test_ranks.py::test_x[slurm-alone-2]")) == '"slurm"'
