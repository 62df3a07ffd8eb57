"""Imports that are tried: what is made of the answers, and real ones of this test's Python."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from recorded_node import node, row

from worldsize.common.named_tuple import Any
from worldsize.state.check_rows import BAD, OK, UNKNOWN, WARNING
from worldsize.wings.checks.agent.probes import imports
from worldsize.wings.checks.agent.probes.imports import probe, result_of
from worldsize.wings.checks.agent.programs.program_output import ProgramEnd
from worldsize.wings.checks.agent.readers.import_trial import FailedImport, ImportTrial, understand

MARK = "@mark@"
TORCH = {"version": "2.7.1+cu126", "cuda": "12.6", "nccl": "2.26.2", "has_nccl": True, "mpi": False, "gloo": True}
WHOLE = ImportTrial("3.11.7", torch=TORCH, is_over=True)


def said(*values: Any) -> str:
    return "".join("noise\n%s%s\n" % (MARK, json.dumps(value)) for value in values)


def test_answers_among_other_output() -> None:
    output = said({"python": "3.11.7"}, {"begun": "a"}, {"torch": TORCH}, {"end": True})
    assert understand(ProgramEnd(0, output), MARK) == WHOLE._replace(begun="a", last="noise")


def test_failed_imports() -> None:
    value = {"module": "a", "kind": "ImportError", "is_import": True, "text": "no b"}
    trial = understand(ProgramEnd(0, said({"python": "3.11.7"}, value, {"end": True})), MARK)
    assert trial.failed == (FailedImport("a", "ImportError", True, "no b"),)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "\0" * 999,
        MARK,
        MARK + "{",
        MARK + "[" * 100_000,
        MARK + "3",
        said([1], "x", None, {"end": 1}, {"module": 3}),
    ],
)
def test_damaged_answers(output: str) -> None:
    trial = understand(ProgramEnd(0, output), MARK)
    assert (trial.python, trial.failed, trial.torch, trial.is_over) == ("", (), {}, False)


def verdict(tmp_path: Path, trial: ImportTrial, asked: Mapping[str, Any] = {}) -> tuple[str, str]:
    found = row(result_of(node(tmp_path, asked), trial), "python.imports")
    assert (found.hint == "") == (found.verdict == OK)
    return found.verdict, found.value


def test_all_is_well(tmp_path: Path) -> None:
    asked = {"modules": ["torch", "numpy"], "gpus": 8, "backend": "nccl"}
    assert verdict(tmp_path, WHOLE, asked) == (OK, "Python 3.11.7, torch 2.7.1+cu126, 2 modules")
    facts = result_of(node(tmp_path), WHOLE).facts
    assert facts == {
        "python": "3.11.7",
        "torch": {"version": "2.7.1+cu126", "cuda": "12.6", "nccl": "2.26.2", "mpi": False, "gloo": True},
    }


@pytest.mark.parametrize("is_import, expected", [(True, BAD), (False, WARNING)])
def test_error_of_an_import(tmp_path: Path, is_import: bool, expected: str) -> None:
    failed = FailedImport("apex", "SomeError", is_import, "No module named 'amp'")
    found = verdict(tmp_path, WHOLE._replace(failed=(failed,)))
    assert found == (expected, "import apex: SomeError: No module named 'amp'")


def test_secrets_and_control_characters_of_errors(tmp_path: Path) -> None:
    failed = FailedImport("apex", "E", True, "\x1b[31m password=geheim123456 at https://me:pass@host/")
    value = verdict(tmp_path, WHOLE._replace(failed=(failed,)))[1]
    assert value.isprintable()
    assert "geheim" not in value and "pass@" not in value


@pytest.mark.parametrize(
    "changes, expected",
    [
        ({"code": None, "begun": "tensorflow"}, (UNKNOWN, "import tensorflow had not ended after 55 s")),
        ({"code": None, "python": "", "begun": ""}, (UNKNOWN, "Python had not ended after 55 s")),
        ({"code": -11, "begun": "a"}, (BAD, "import a ended Python: SIGSEGV")),
        ({"code": -4, "begun": "a", "last": "bad"}, (BAD, "import a ended Python: SIGILL (bad)")),
        ({"code": -9, "begun": "a"}, (WARNING, "import a ended Python: SIGKILL")),
        ({"code": 7, "begun": "a"}, (WARNING, "import a ended Python: exit code 7")),
        ({"code": 127, "python": "", "last": "no libpython"}, (BAD, "Python does not start: no libpython")),
        ({"code": -6, "python": ""}, (BAD, "Python does not start: SIGABRT")),
        ({"code": -99, "python": ""}, (BAD, "Python does not start: signal 99")),
    ],
)
def test_early_end(tmp_path: Path, changes: dict[str, Any], expected: tuple[str, str]) -> None:
    assert verdict(tmp_path, WHOLE._replace(is_over=False, torch={}, **changes)) == expected


@pytest.mark.parametrize(
    "asked, torch, expected",
    [
        ({"gpus": 4}, {"cuda": None}, WARNING),
        ({"gpus": 4, "backend": "nccl"}, {"cuda": None, "has_nccl": False}, BAD),
        ({"gpus": 4, "backend": "gloo"}, {"cuda": None, "has_nccl": False}, WARNING),
        ({"gpus": 4}, {"cuda": None, "hip": "6.2"}, OK),
        ({"gpus": 0}, {"cuda": None}, OK),
        ({}, {"cuda": None}, OK),
    ],
)
def test_torch_for_cpus(tmp_path: Path, asked: dict[str, Any], torch: dict[str, Any], expected: str) -> None:
    assert verdict(tmp_path, WHOLE._replace(torch={**TORCH, **torch}), asked)[0] == expected


@pytest.mark.parametrize(("gpus", "words"), [(1, "1 GPU per node"), (2, "2 GPUs per node")])
def test_one_gpu_is_no_several(tmp_path: Path, gpus: int, words: str) -> None:
    _, value = verdict(tmp_path, WHOLE._replace(torch={**TORCH, "cuda": None}), {"gpus": gpus})
    assert value.endswith(" " + words)


def test_a_python_that_is_guessed_is_not_started(tmp_path: Path) -> None:
    for python in (sys.executable, "/nowhere/python3"):
        assert probe(node(tmp_path, {"python": python, "python_guessed": True})) == ((), {})


def test_back_end_mpi(tmp_path: Path) -> None:
    asked = {"backend": "mpi"}
    assert row(result_of(node(tmp_path, asked), WHOLE), "python.mpi_backend").verdict == BAD
    with_mpi = WHOLE._replace(torch={**TORCH, "mpi": True})
    assert row(result_of(node(tmp_path, asked), with_mpi), "python.mpi_backend").verdict == OK
    for trial in (WHOLE._replace(torch={}), WHOLE._replace(torch={**TORCH, "mpi": None})):
        assert [each.id for each in result_of(node(tmp_path, asked), trial).rows] == ["python.imports"]
    assert len(result_of(node(tmp_path), WHOLE).rows) == 1


def code_of(tmp_path: Path) -> Path:
    """The directory of the run's code."""
    return Path(node(tmp_path).run_dir, "code")


def own_python(tmp_path: Path, *modules: str, **asked: Any) -> Any:
    """The result of a real trial with this test's Python."""
    environ = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return probe(node(tmp_path, {"python": sys.executable, "modules": list(modules), **asked}, environ))


def test_real_imports(tmp_path: Path) -> None:
    code = code_of(tmp_path)
    (code / "loud.py").write_text("import sys\nprint('x' * 100000)\nprint('{', file=sys.stderr)\n")
    (code / "broken.py").write_text("import nowhere_at_all\n")
    (code / "exits.py").write_text("import sys\nsys.stdout = None\nsys.exit('bye')\n")
    result = own_python(tmp_path, "json", "loud", "broken", "exits", "not a name", "os.path", "-c")
    found = row(result, "python.imports")
    assert found.verdict == BAD
    assert found.value == (
        "import broken: ModuleNotFoundError: No module named 'nowhere_at_all'; import exits: SystemExit: bye"
    )
    assert result.facts == {"python": "%d.%d.%d" % sys.version_info[:3]}


def test_real_import_that_ends_python(tmp_path: Path) -> None:
    (code_of(tmp_path) / "crash.py").write_text(
        "import os\nprint('last words', flush=True)\nos.kill(os.getpid(), 11)\n"
    )
    found = row(own_python(tmp_path, "json", "crash", "os"), "python.imports")
    assert (found.verdict, found.value) == (BAD, "import crash ended Python: SIGSEGV (last words)")


def test_real_import_that_is_late(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imports, "LIMIT", 0.5)
    (code_of(tmp_path) / "slow.py").write_text("import time\ntime.sleep(99)\n")
    assert row(own_python(tmp_path, "slow"), "python.imports").verdict == UNKNOWN


def test_names_of_the_standard_library_in_the_code(tmp_path: Path) -> None:
    code = code_of(tmp_path)
    (code / "json.py").write_text("raise SystemExit('not that one')\n")
    (code / "parses.py").write_text("import sys\nassert sys.argv[1:] == []\n")
    assert row(own_python(tmp_path, "parses"), "python.imports").verdict == OK


def test_threads_that_an_import_starts_are_not_waited_for(tmp_path: Path) -> None:
    (code_of(tmp_path) / "thread.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(99,)).start()\n"
    )
    assert row(own_python(tmp_path, "thread"), "python.imports").verdict == OK


def test_own_torch_stands_for_torch(tmp_path: Path) -> None:
    code = code_of(tmp_path)
    classes = "class version:\n    cuda = None\nclass distributed:\n    is_mpi_available = lambda: True\n"
    (code / "torch.py").write_text("__version__ = '9.9'\n" + classes)
    result = own_python(tmp_path, framework="pytorch", backend="mpi")
    assert result.facts["torch"] == {"version": "9.9", "cuda": None, "nccl": None, "mpi": True, "gloo": None}
    assert row(result, "python.mpi_backend").verdict == OK


def test_python_that_is_not_there(tmp_path: Path) -> None:
    found = row(probe(node(tmp_path, {"python": "/none/bin/python"})), "python.imports")
    assert (found.verdict, found.value) == (BAD, "/none/bin/python: No such file or directory")


def test_python_that_does_not_start(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_bytes(b"\x7fELF junk")
    python.chmod(0o755)
    assert row(probe(node(tmp_path, {"python": str(python)})), "python.imports").verdict == BAD


def test_relative_path_is_of_the_code(tmp_path: Path) -> None:
    context = node(tmp_path, {"python": "env/bin/python"})
    (tmp_path / "run" / "code" / "env" / "bin").mkdir(parents=True)
    (tmp_path / "run" / "code" / "env" / "bin" / "python").symlink_to(sys.executable)
    assert row(probe(context), "python.imports").verdict == OK


@pytest.mark.parametrize("asked", [{}, {"python": "/bin/sh"}, {"python": ["python"]}])
def test_nothing_is_said_of_other_programs(tmp_path: Path, asked: dict[str, Any]) -> None:
    assert probe(node(tmp_path, asked)) == ((), {})
