"""Whose exception is a rank's: that of the Python which its shell starts, not that of what this Python tries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import Cli

HOOK = Path(__file__).parents[3] / "src" / "worldsize" / "inrank"
PROBE = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import not_there_probe'])\n"
FAIL = "raise ValueError('the real cause')\n"


def left(tmp_path: Path, command: str, error_file: str = "rank-00000.json", **environ: str) -> tuple[int, str | None]:
    """The exit code of a rank's shell command, and the exception that counts as the rank's."""
    path = tmp_path / "rank-00000.json"
    environ = {"PATH": os.path.dirname(sys.executable) + ":/usr/bin:/bin", "RANK": "0", **environ}
    environ.update(PYTHONPATH=str(HOOK), WORLDSIZE_ERROR_FILE=str(tmp_path / error_file))
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environ, stderr=subprocess.PIPE)
    assert b"Error in sys.excepthook" not in done.stderr
    return done.returncode, json.loads(path.read_text())["message"] if path.exists() else None


def test_after_a_probe_the_own_exception_counts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROBE + FAIL)
    assert left(tmp_path, "python train.py") == (1, "the real cause")


@pytest.mark.parametrize("end", ["sys.exit(3)\n", ""])
def test_a_probe_alone_is_nobodys_failure(tmp_path: Path, end: str) -> None:
    (tmp_path / "train.py").write_text(PROBE + end)
    assert left(tmp_path, "python train.py") == (3 if end else 0, None)


def test_a_forked_child_is_one_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nif os.fork() == 0: raise KeyError(1)\nos.wait()\n" + FAIL)
    assert left(tmp_path, "python train.py") == (1, "the real cause")


def test_what_the_shell_tries_before_is_no_cause(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAIL)
    assert left(tmp_path, "python -c 'import not_there_probe' || python train.py") == (1, "the real cause")


def test_what_a_pipe_hides_is_left(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAIL)
    assert left(tmp_path, "python train.py | cat") == (0, "the real cause")


@pytest.mark.parametrize("call", ["[sys.executable, 'train.py']", "sys.executable + ' train.py', shell=True"])
def test_a_failed_command_is_told_by_its_own_exception(tmp_path: Path, call: str) -> None:
    (tmp_path / "train.py").write_text(FAIL)
    (tmp_path / "driver.py").write_text(PROBE + "subprocess.run(%s, check=True)\n" % call)
    assert left(tmp_path, "python driver.py") == (1, "the real cause")


def test_another_failed_command_is_not_told_by_a_probes_exception(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(PROBE + "subprocess.run(['false'], check=True)\n")
    code, message = left(tmp_path, "python driver.py")
    assert code == 1 and message is not None and "['false']" in message


@pytest.mark.exhaustive(unless=["torchrun"])
@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed"])
def test_the_rank_of_a_launcher_tells_more_than_the_launcher(tmp_path: Path, launcher: str) -> None:
    (tmp_path / "train.py").write_text(PROBE + FAIL)
    start = "import subprocess, sys\nif subprocess.run([sys.executable, 'train.py']).returncode: raise RuntimeError\n"
    (tmp_path / launcher).write_text(start)
    assert left(tmp_path, "python %s" % launcher) == (1, "the real cause")


def test_what_a_launcher_starts_again_has_not_failed_yet(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os\nif os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': 1 / 0\n")
    restart = "for n in '01': subprocess.run([sys.executable, 'train.py'], env={**os.environ, name: n})\n"
    (tmp_path / "torchrun").write_text("import os, subprocess, sys\nname = 'TORCHELASTIC_RESTART_COUNT'\n" + restart)
    assert left(tmp_path, "python torchrun") == (0, None)


def test_quotes_that_only_a_shell_understands(tmp_path: Path) -> None:
    (tmp_path / "driver.py").write_text(
        'import subprocess\nsubprocess.run("false <<X\\nit\'s\\nX", shell=True, check=True)\n'
    )
    code, message = left(tmp_path, "python driver.py")
    assert code == 1 and message is not None and "returned non-zero exit status 1" in message


def test_a_script_whose_name_begins_like_a_launchers_is_none(tmp_path: Path) -> None:
    (tmp_path / "deepspeed_train.py").write_text(PROBE)
    assert left(tmp_path, "python deepspeed_train.py") == (0, None)


def test_the_tasks_of_a_python_batch_script_are_ranks_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAIL)
    task = "env={**os.environ, 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '0'}"
    (tmp_path / "job.py").write_text(
        "import os, subprocess, sys\nsubprocess.run([sys.executable, 'train.py'], %s)\n" % task
    )
    assert left(tmp_path, "python job.py", "rank-%t.json") == (0, "the real cause")


@pytest.mark.exhaustive(unless=["[1]", ""])
@pytest.mark.parametrize("text", ["", "[1]", '{"pid": "x"}', '{"pid": 1, "time": null}', "{" * 5000])
def test_a_damaged_report_keeps_none_from_being_left(tmp_path: Path, text: str) -> None:
    (tmp_path / "rank-00000.json").write_text(text)
    (tmp_path / "rank-00000.json.child").write_text(text)
    (tmp_path / "train.py").write_text(FAIL)
    assert left(tmp_path, "python train.py") == (1, "the real cause")


@pytest.mark.exhaustive(unless=["0"])
@pytest.mark.parametrize("grace", [0, 10])
def test_helpers_that_see_that_their_rank_is_gone_speak_against_nothing(cli: Cli, grace: int) -> None:
    """Those of multiprocessing end by themselves a moment later, whatever grace the run has."""
    cli.write(
        "train.py",
        "import multiprocessing, multiprocessing.shared_memory\n"
        "if __name__ == '__main__':\n"
        "    memory = multiprocessing.shared_memory.SharedMemory(create=True, size=64)\n"
        "    with multiprocessing.get_context('forkserver').Pool(1) as pool: print(pool.map(abs, [-1]))\n"
        "    memory.close(); memory.unlink()\n",
    )
    run = cli.run("--set", "grace=%d" % grace, "--", sys.executable, "train.py")
    assert cli.status(run)["warnings"] == []


@pytest.mark.exhaustive(unless=['{"code":3}'])
@pytest.mark.parametrize("text", ["3", '{"code":3}', '{"code":3,"ended":1.0,"step":0,"failure":"x","command":[]}'])
def test_what_a_step_writes_over_its_record_costs_no_success(cli: Cli, text: str) -> None:
    body = "srun true\necho '%s' >$WORLDSIZE_RUN_DIR/attempt-0/steps/step-0000.json\n" % text
    cli.write("job.slurm", "#!/bin/bash\n" + body)
    assert cli.status(cli.run("job.slurm"))["state"] == "SUCCEEDED"
