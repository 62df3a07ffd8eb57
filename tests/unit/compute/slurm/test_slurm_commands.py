"""Running Slurm's programs: their environment, how they can fail, and what their words become."""

from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from driver import wait_for
from slurm_fakes import FakeSlurm

from worldsize.compute.slurm.commands import call, clean_environ, run_slurm
from worldsize.compute.slurm.errors import error_text_of, slurm_error
from worldsize.errors import ConfigError, SubmitAgain, SubmitRejected


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def program(folder: Path, name: str, text: str) -> dict[str, str]:
    """An executable shell script; the environment that finds it."""
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return {"PATH": "%s:/usr/bin:/bin" % folder}


INHERITED = {
    "PATH": "/bin",
    "HOME": "/home/a",
    "LANG": "de_DE.UTF-8",
    "SLURM_CONF": "/etc/slurm/slurm.conf",
    "SLURM_JWT": "token",
    "SLURM_JOB_ID": "1",
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
    "SLURM_CLUSTERS": "other",
    "SLURM_TIME_FORMAT": "relative",
    "SLURMD_NODENAME": "node1",
    "SBATCH_PARTITION": "debug",
    "SBATCH_REQUEUE": "1",
    "SQUEUE_FORMAT": "%i",
    "SQUEUE_USERS": "somebody",
    "SACCT_FORMAT": "jobid",
    "SINFO_PARTITION": "debug",
    "SALLOC_ACCOUNT": "x",
    "PMI_RANK": "0",
    "PMIX_RANK": "0",
}


def test_what_an_outer_allocation_left_is_scrubbed() -> None:
    assert clean_environ(INHERITED) == {
        "PATH": "/bin",
        "HOME": "/home/a",
        "LANG": "de_DE.UTF-8",
        "LC_ALL": "C",
        "SLURM_CONF": "/etc/slurm/slurm.conf",
        "SLURM_JWT": "token",
        "SLURM_TIME_FORMAT": "%s",
        "SLURM_BITSTR_LEN": "0",
    }


def test_a_jobs_own_environment_gets_nothing_of_ours() -> None:
    cleaned = clean_environ(INHERITED, "sbatch")
    assert cleaned["LANG"] == "de_DE.UTF-8"
    assert set(cleaned) == {"PATH", "HOME", "LANG", "SLURM_CONF", "SLURM_JWT"}


def test_a_trial_submission_is_a_question(fake: FakeSlurm) -> None:
    call(["sbatch", "--test-only"], environ=fake.environ, input="#!/bin/sh\n")
    call(["sbatch", "--parsable"], environ=fake.environ, input="#!/bin/sh\n")
    asked, submitted = (each["environ"] for each in fake.calls_with_environ())
    assert asked["SLURM_TIME_FORMAT"] == "%s"
    assert "SLURM_TIME_FORMAT" not in submitted
    assert "LC_ALL" not in submitted


def test_what_a_program_prints_and_reads(tmp_path: Path) -> None:
    environ = program(tmp_path, "sbatch", 'cat; echo "to stderr" >&2; exit 3')
    answer = call(["sbatch"], environ=environ, input="Grüße \udcff\n")
    assert answer.code == 3
    assert answer.out == "Grüße \ufffd\n"
    assert answer.err == "to stderr\n"


def test_a_program_that_does_not_read_a_large_text_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe has room for a tenth of a batch script."""
    text = "x" * (1 << 20)
    assert call(["sbatch"], environ=program(tmp_path, "sbatch", "wc -c"), input=text).out.strip() == str(len(text))
    assert call(["sbatch"], environ=program(tmp_path, "sbatch", "echo refused"), input=text).out == "refused\n"


def test_a_program_reads_nothing_of_ours(tmp_path: Path) -> None:
    environ = program(tmp_path, "squeue", "cat; echo end")
    assert run_slurm(["squeue"], environ=environ) == "end\n"


def test_ctrl_c_does_not_reach_it(tmp_path: Path) -> None:
    environ = program(tmp_path, "sbatch", "cut -d ' ' -f 6 /proc/$$/stat")
    assert int(run_slurm(["sbatch"], environ=environ)) != os.getsid(0)


def test_a_machine_without_slurm_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not a login node of a Slurm cluster"):
        run_slurm(["sbatch"], environ={"PATH": str(tmp_path)})
    (tmp_path / "sbatch").write_text("")
    with pytest.raises(ConfigError, match="not executable"):
        run_slurm(["sbatch"], environ={"PATH": str(tmp_path)})


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its time begins once it has started the child, however long that takes."""
    child = tmp_path / "child"
    environ = program(tmp_path, "squeue", "sleep 600 & echo $! > %s.new; mv %s.new %s; wait" % (child, child, child))
    communicate = subprocess.Popen.communicate

    def once_begun(process: subprocess.Popen[bytes], **words: Any) -> tuple[bytes, bytes]:
        wait_for(child.exists)
        return communicate(process, **words)

    monkeypatch.setattr(subprocess.Popen, "communicate", once_begun)
    before = time.monotonic()
    with pytest.raises(SubmitAgain, match=r"squeue gave no answer within 0.3 s"):
        run_slurm(["squeue"], environ=environ, timeout=0.3)
    assert time.monotonic() - before < 60
    wait_for(lambda: not _alive(int(child.read_text())))


def _alive(pid: int) -> bool:
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_program_that_dies_without_a_word(tmp_path: Path) -> None:
    environ = program(tmp_path, "squeue", "kill -9 $$")
    with pytest.raises(SubmitRejected, match="ended with code 137"):
        run_slurm(["squeue"], environ=environ)


@pytest.mark.parametrize(
    "text",
    [
        "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)",
        "slurm_load_jobs error: Unable to contact slurm controller (connect failure)",
        "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation",
        (
            "sbatch: error: slurm_receive_msg: Zero Bytes were transmitted or received\n"
            "sbatch: error: Batch job submission failed: Zero Bytes were transmitted or received"
        ),
        (
            "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n"
            "sbatch: error: Batch job submission failed: Resource temporarily unavailable"
        ),
        "sbatch: error: Batch job submission failed: Unable to create job record, try again",
        "squeue: error: Unable to contact slurm controller (connect failure): Connection refused",
        "slurm_load_jobs error: Slurm backup controller in standby mode",
        "slurm_load_jobs error: Controller is in standby mode, try a different controller",
        "sbatch: error: Batch job submission failed: Rate limit exceeded, please retry momentarily",
        (
            "sacct: error: slurm_persist_conn_open_without_init: failed to open persistent connection to host:db:6819: "
            "Connection refused\nsacct: error: Sending PersistInit msg: Connection refused\n"
            "sacct: error: Problem talking to the database: Connection refused"
        ),
        "sbatch: error: Batch job submission failed: Transport endpoint is not connected",
        "sbatch: error: Batch job submission failed: Connection timed out",
        "sbatch: error: Batch job submission failed: No route to host",
        "slurm_load_jobs error: Unexpected missing socket error",
    ],
)
def test_a_controller_that_is_away_may_be_asked_again(text: str) -> None:
    error = slurm_error("sbatch", text)
    assert type(error) is SubmitAgain
    assert "sbatch: error" not in error.what


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        (
            (
                "sbatch: error: invalid partition specified: gpux\n"
                "sbatch: error: Batch job submission failed: Invalid partition name specified"
            ),
            "invalid partition specified: gpux; Invalid partition name specified",
            "slurm.partition",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified",
            "Invalid account or account/partition combination specified",
            "slurm.account",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid qos specification",
            "Invalid qos specification",
            "slurm.qos",
        ),
        (
            "sbatch: error: Batch job submission failed: Requested node configuration is not available",
            "Requested node configuration is not available",
            "worldsize nodes",
        ),
        (
            "sbatch: error: Batch job submission failed: More processors requested than permitted",
            "More processors requested than permitted",
            "cpus_per_rank",
        ),
        (
            (
                "sbatch: error: QOSMaxSubmitJobPerUserLimit\nsbatch: error: Batch job submission failed: Job violates "
                "accounting/QOS policy (job submit limit, user's size and/or time limits)"
            ),
            (
                "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, user's size and/or "
                "time limits)"
            ),
            "sacctmgr show qos",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid feature specification",
            "Invalid feature specification",
            "slurm.constraint",
        ),
        (
            (
                "sbatch: error: Batch job submission failed: "
                "Requested time limit is invalid (missing or exceeds some limit)"
            ),
            "Requested time limit is invalid (missing or exceeds some limit)",
            "slurm.time",
        ),
        (
            "sbatch: error: Batch job submission failed: Pathname of a file, directory or other parameter too long",
            "Pathname of a file, directory or other parameter too long",
            "max_script_size",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid generic resource (gres) specification",
            "Invalid generic resource (gres) specification",
            "GPUs",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid Trackable RESource (TRES) specification",
            "Invalid Trackable RESource (TRES) specification",
            "GPUs",
        ),
        (
            "allocation failure: Requested node configuration is not available",
            "Requested node configuration is not available",
            "worldsize nodes",
        ),
        (
            "sbatch: error: Batch job submission failed: Invalid job array specification",
            "Invalid job array specification",
            "MaxArraySize",
        ),
        (
            "sbatch: error: Batch job submission failed: Requested reservation is invalid",
            "Requested reservation is invalid",
            "slurm.reservation",
        ),
        (
            (
                "sbatch: error: Memory specification can not be satisfied\n"
                "sbatch: error: Batch job submission failed: Requested node configuration is not available"
            ),
            "Memory specification can not be satisfied; Requested node configuration is not available",
            "worldsize nodes",
        ),
        ("sbatch: error: Batch job submission failed: Job dependency problem", "Job dependency problem", "dependency"),
        (
            "sbatch: unrecognized option '--foo'\nTry \"sbatch --help\" for more information",
            "unrecognized option '--foo'",
            None,
        ),
        (
            "scancel: error: Kill job error on job id 5: Access/permission denied",
            "Kill job error on job id 5: Access/permission denied",
            "another user",
        ),
        (
            (
                "sbatch: error: ======\nsbatch: error: You must give an account.\nsbatch: error: ======\n"
                "sbatch: error: Batch job submission failed: Unspecified error"
            ),
            "======; You must give an account.; Unspecified error",
            None,
        ),
    ],
)
def test_a_refusal_keeps_slurms_words_and_says_what_to_do(text: str, words: str, hint: str | None) -> None:
    error = slurm_error("sbatch", text)
    assert type(error) is SubmitRejected
    assert error.what == words
    assert (hint is None and error.hint is None) or (hint is not None and hint in (error.hint or ""))


@pytest.mark.parametrize(
    "text",
    [
        (
            "sbatch: error: resolve_ctls_from_dns_srv: res_nsearch error: Unknown host\n"
            "sbatch: error: fetch_config: DNS SRV lookup failed\n"
            "sbatch: error: _establish_config_source: failed to fetch config\n"
            "sbatch: fatal: Could not establish a configuration source"
        ),
        (
            "sbatch: error: s_p_parse_file: unable to status file /etc/slurm/slurm.conf: No such file or directory\n"
            "sbatch: fatal: Unable to process configuration file"
        ),
    ],
)
def test_a_machine_with_the_programs_but_no_cluster(text: str) -> None:
    error = slurm_error("sbatch", text)
    assert type(error) is ConfigError
    assert "SLURM_CONF" in (error.hint or "")


def test_a_default_of_the_shell_that_is_not_used_is_named() -> None:
    text = "sbatch: error: Batch job submission failed: Invalid account or account/partition combination specified"
    error = slurm_error("sbatch", text, {"SBATCH_ACCOUNT": "physics"})
    assert error.hint == "SBATCH_ACCOUNT=physics of your shell is ignored: set slurm.account"


def test_a_wall_of_text_is_shortened() -> None:
    assert len(error_text_of("sbatch: error: " + "x" * 5000)) == 1000
    assert error_text_of("") == ""
    assert error_text_of("sbatch: error: a\nsbatch: error: a\n") == "a"


def test_a_site_that_greets_on_stderr_is_no_failure(tmp_path: Path) -> None:
    environ = program(tmp_path, "sbatch", 'echo "sbatch: Welcome to the cluster" >&2; echo 12')
    assert run_slurm(["sbatch"], environ=environ) == "12\n"
