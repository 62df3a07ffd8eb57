"""What is in a report about a run, and what is not."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest
from in_process import InProcess

from worldsize.common.atomic_files import write_json, write_text
from worldsize.plan.plan import Plan, node_major_layout
from worldsize.plan.run_paths import RunPaths
from worldsize.store.runs import create_run
from worldsize.wings.bug_report.contents import LOG_BYTES, RANKS_BYTES, redactor, run_files

SECRET, KEPT = "s3cr3t-of-the-job", "kept-until-the-end"
RECORD = {"argv": ["train.py", "--api-key", SECRET], "environment": {"PATH": "/bin", "EDITOR": "vi", "HF_TOKEN": "***"}}


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = create_run(str(tmp_path / "home"), now=lambda: 1795257118.0)
    plan = Plan(paths.run_id, "t", "local", 1.0, 0, node_major_layout(1, 2), ("python", "train.py"), {"DB_PW": "***"},
                secrets=("DB_PW",), hidden=("environment",))  # fmt: skip
    write_text(paths.plan, plan.to_json())
    write_json(os.path.join(paths.root, "secrets.json"), {"environment": {"DB_PW": KEPT}})
    write_json(paths.record, RECORD)
    write_json(paths.handle, {"type": "local", "host": "elsewhere", "pid": 1, "start_time": 1, "run_id": paths.run_id})
    for directory in paths.directories():
        os.makedirs(directory, exist_ok=True)
    write_text(paths.rank_log(0), "line\n" * LOG_BYTES + "password is %s\nhome is %s/x\n" % (KEPT, tmp_path / "cli"))
    write_text(paths.agent_log(0), "an agent said --token=abcdef0123456789\n")
    write_text(paths.events(0), '{"event": "notice", "text": "Bearer abcdef0123456789"}\nno JSON\n')
    write_json(paths.rendezvous, {"key": "what nodes meet by"})
    write_text(os.path.join(paths.code, "train.py"), "code")
    write_text(os.path.join(paths.outputs, "model.pt"), "output")
    os.symlink("/etc/passwd", paths.exit_record(0))
    return paths


def test_the_archive(run: RunPaths, tmp_path: Path) -> None:
    os.mkdir(tmp_path / "cli")
    cli = InProcess(str(tmp_path / "cli"))
    cli.environ["WORLDSIZE_HOME"] = str(tmp_path / "home")
    target = str(tmp_path / "report.tar.gz")
    done = cli("bugreport", run.run_id, "--to", target)
    assert done.code == 0 and done.out == target + "\n" and "before you send them" in done.err, done
    assert os.stat(target).st_mode & 0o777 == 0o600
    with tarfile.open(target) as tar:
        texts = {
            member.name.partition("/")[2]: (tar.extractfile(member) or open(os.devnull, "rb")).read().decode()
            for member in tar.getmembers()
        }
    whole = "".join(texts.values())
    for hidden in (SECRET, KEPT, "abcdef0123456789", "what nodes meet by"):
        assert hidden not in whole
    assert {
        "README.txt",
        "machine.json",
        "run/plan.json",
        "run/record.json",
        "run/attempt-0/logs/agent-0000.log",
    } <= set(texts)
    assert not any(word in name for name in texts for word in ("code", "outputs", "rendezvous", "secrets"))
    log = texts["run/attempt-0/logs/rank-00000.log"]
    assert log.startswith("(the last %d bytes)\nline\n" % LOG_BYTES) and log.endswith("password is ***\nhome is ~/x\n")
    assert json.loads(texts["run/record.json"])["environment"]["EDITOR"] == "(not in this report)"
    assert json.loads(texts["machine.json"])["worldsize"]
    again = cli("bugreport", run.run_id, "--to", target)
    assert again.code == 2 and "exists already" in again.err
    nowhere = cli("bugreport", run.run_id, "--to", str(tmp_path / "none" / "x.tar.gz"))
    assert nowhere.code == 1 and "cannot write" in nowhere.err


def test_many_ranks_share_the_room(tmp_path: Path) -> None:
    paths = RunPaths(str(tmp_path))
    os.makedirs(paths.logs_dir)
    for rank in range(1000):
        open(paths.rank_log(rank), "w").close()
    most = {name: size for name, size in run_files(paths) if "rank-" in name}
    assert len(most) == 1000 and sum(most.values()) <= RANKS_BYTES


def test_home_is_named_where_it_is_one() -> None:
    redact = redactor([], "/home/ann")
    assert redact({"a": ["/home/ann/x", "/home/anna", "/home/ann"]}) == {"a": ["~/x", "/home/anna", "~"]}
