"""run: what it prints, its exit code, what a job sees."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from driver import SOURCE, Cli, unfolded, wait_for

ECHO = """
command: echo $RANK $LOCAL_RANK $NODE_RANK $MASTER_ADDR $MASTER_PORT
distribution:
  type: pytorch
  process_count_per_instance: 2
resources:
  instance_count: 2
"""


def test_two_processes_on_each_of_two_instances(cli: Cli) -> None:
    """The four right lines, as anybody who follows Azure's guide expects them."""
    cli.write("job.yml", ECHO)
    result = cli.ok("run", "job.yml", "--fold", "off")
    words = sorted(line.split()[1:] for line in result.lines)
    assert [line[:3] for line in words] == [["0", "0", "0"], ["1", "1", "0"], ["2", "0", "1"], ["3", "1", "1"]]
    assert {line[3] for line in words} == {"127.0.0.1"}
    (port,) = {int(line[4]) for line in words}
    assert 1024 < port < 65536


@pytest.mark.exhaustive(
    unless=["exit 3-3", "kill -9 $$-137", "no-such-command-127", "[ $RANK = 2 ] && exit 7; sleep 60-7"]
)
@pytest.mark.parametrize(
    ("command", "code"),
    [
        ("exit 0", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -TERM $$", 143),
        ("kill -SEGV $$", 139),
        ("no-such-command", 127),
        ("[ $RANK = 2 ] && exit 7; sleep 60", 7),
    ],
)
def test_exit_code_is_the_first_failing_ranks(cli: Cli, command: str, code: int) -> None:
    result = cli("run", "-w", "2x2", "--", "sh", "-c", command)
    assert result.code == code, result
    assert ("SUCCEEDED" if code == 0 else "FAILED") in result.err


def test_a_command_that_does_not_exist(cli: Cli) -> None:
    result = cli("run", "-w", "1x2", "--", "no-such-program", "--lr", "1")
    assert result.code == 127
    assert "no-such-program" in result.err and "not found" in result.err


def test_a_file_that_cannot_be_executed(cli: Cli) -> None:
    cli.write("data.bin", "no program")
    result = cli("run", "-w", "1x1", "--", "./data.bin")
    assert result.code == 126, result


def test_the_failing_rank_is_told_about(cli: Cli) -> None:
    cli.write(
        "train.py", "import os\nif os.environ['RANK'] == '1':\n    raise ValueError('bad batch')\nprint('fine')\n"
    )
    result = cli("run", "-w", "1x2", "--", "python", "train.py")
    assert result.code == 1
    assert "ValueError: bad batch" in result.err
    assert "train.py:3" in result.err
    assert "rank 1" in result.err


def test_lines_carry_node_and_rank_and_equal_ones_are_folded(cli: Cli) -> None:
    """While it runs, those that come at the same time: here, what is there when somebody begins to follow."""
    own = {"0:0: mine 0", "0:1: mine 1", "1:2: mine 2", "1:3: mine 3"}
    script = "echo same; echo mine $RANK; touch outputs/up-$RANK; until test -e outputs/go; do sleep 0.05; done"
    run = cli.submit("-w", "2x2", "--", "sh", "-c", script)
    wait_for(lambda: all(os.path.exists(cli.path(run, "outputs", "up-%d" % rank)) for rank in range(4)))
    following = cli.start("logs", "-f")
    assert following.stdout is not None and following.stdout.readline().decode() == "×4: same\n"
    open(cli.path(run, "outputs", "go"), "w").close()
    out, _ = following.communicate(timeout=30)
    assert set(out.decode().splitlines()) == own
    result = cli.ok("run", "-w", "2x2", "--", "sh", "-c", "echo same; echo mine $RANK")
    assert own <= set(result.lines) and unfolded(result.lines).count("same") == 4
    assert "×4: same" in cli.ok("logs").lines


def test_folding_can_be_turned_off_or_reach_numbers(cli: Cli) -> None:
    command = ("--", "sh", "-c", "echo same; echo loss 0.$RANK")
    off = cli.ok("run", "-w", "1x2", "--fold", "off", *command)
    assert sorted(off.lines) == ["0:0: loss 0.0", "0:0: same", "0:1: loss 0.1", "0:1: same"]
    numbers = cli.ok("run", "-w", "1x2", "--fold", "numbers", *command)
    late = {"0:0: loss 0.0", "0:1: loss 0.1"}
    assert "×2: loss {0.0..0.1}" in numbers.lines or late <= set(numbers.lines), numbers
    assert cli.ok("logs", "--fold", "numbers").lines == ["×2: same", "×2: loss {0.0..0.1}"]


def test_quiet_prints_no_logs(cli: Cli) -> None:
    result = cli.ok("run", "-q", "-w", "1x2", "--", "echo", "hello")
    assert result.out == ""
    assert cli.ok("logs").out == "×2: hello\n"


def test_dry_run_prints_and_creates_nothing(cli: Cli) -> None:
    cli.write("job.yml", ECHO)
    result = cli.ok("run", "job.yml", "--dry-run")
    assert "RANK=3" in result.out and "WORLD_SIZE=4" in result.out
    assert "bash -c 'echo $RANK $LOCAL_RANK $NODE_RANK $MASTER_ADDR $MASTER_PORT'" in result.out
    assert not os.path.exists(cli.home)


def test_an_output_at_a_uri_is_kept_with_the_run(cli: Cli) -> None:
    uri = "azureml://datastores/a/paths/b"
    cli.write("job.yml", "command: echo x > ${{outputs.model}}/f\noutputs: {model: {path: '%s'}}\n" % uri)
    result = cli.ok("run", "job.yml")
    assert "only Azure ML honours %s" % uri in result.err and "outputs/model" in result.err
    assert cli.read(cli.latest(), "outputs", "model", "f") == "x\n"
    assert not os.path.exists(os.path.join(cli.project, "azureml:"))


def test_an_input_that_says_no_type_may_be_a_file(cli: Cli) -> None:
    cli.write("job.yml", "command: cat ${{inputs.d}}\ninputs: {d: {path: ./data.txt}}\n")
    cli.write("data.txt", "hello\n")
    assert cli.ok("run", "job.yml").out == "0:0: hello\n"


@pytest.mark.exhaustive(unless=["2"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_dry_run_is_what_a_rank_finds(cli: Cli, nodes: int) -> None:
    """Every variable of rank 0, but for what is known at the start alone: the head, its port, the second, the id."""
    text = "command: env -0 > outputs/env-$RANK\nresources: {instance_count: %d}\noutputs: {model: {}}\n" % nodes
    cli.write(
        "job.yml",
        text
        + "visible_devices: true\nshare_gpus: true\nenvironment_variables: {DATA: '${{outputs.model}}'}\nthreads: 3\n",
    )
    outer = {"OMP_NUM_THREADS": "7", "PYTHONPATH": SOURCE, "SLURM_NTASKS": "9", "CUDA_VISIBLE_DEVICES": "5"}
    shown = cli.ok("run", "job.yml", "--dry-run", **outer).out
    assert cli.ok("run", "job.yml", **outer).code == 0
    entries = cli.read(cli.latest(), "outputs", "env-0").split("\0")
    real = dict(entry.split("=", 1) for entry in entries if entry)
    sections = {part.partition("\n")[0]: part.splitlines()[1:] for part in shown.split("\n\n")}
    lines = sections["# the job's variables"] + sections["# rank 0 on node 0"]
    said = dict(line.split("=", 1) for line in lines)
    known = {
        "<head>": real["MASTER_ADDR"], "<port>": real["MASTER_PORT"], "/RUN": "/" + cli.latest(),
        "<the second of the start>": real["SLURM_JOB_ID"], "$PATH": cli.environ["PATH"], "$PYTHONPATH": SOURCE,
    }  # fmt: skip
    for name, value in said.items():
        value = cli.latest() if value == "RUN" else value
        for placeholder, known_value in known.items():
            value = value.replace(placeholder, known_value)
        assert real[name] == value, name
    inherited = {**cli.environ, **outer}
    by_shell = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert {name for name in real if inherited.get(name) != real[name]} - said.keys() - by_shell == set()
    assert said["OMP_NUM_THREADS"] == "3" and said["CUDA_VISIBLE_DEVICES"] == "5"


def test_dry_run_shows_how_torchrun_is_started(cli: Cli) -> None:
    cli.write(
        "job.yml", "command: echo\ndistribution: {type: pytorch, launcher: torchrun, process_count_per_instance: 2}\n"
    )
    shown = cli.ok("run", "job.yml", "-w", "2x2", "--dry-run").out
    assert "# torchrun on node 1, for ranks 2 to 3\npython -m torch.distributed.run --nnodes=2" in shown
    assert "--rdzv-endpoint=<head>:<port>" in shown.replace("'", "")


def test_dry_run_says_what_a_run_would_refuse(cli: Cli) -> None:
    result = cli("run", "--dry-run", "--", "python", "missing.py")
    assert result.code == 2 and "missing.py" in result.err


def test_set_changes_inputs_and_keys(cli: Cli) -> None:
    cli.write("job.yml", "command: echo lr ${{inputs.lr}} $X\ninputs:\n  lr: 0.1\nenvironment_variables:\n  X: a\n")
    assert cli.ok("run", "job.yml").out == "0:0: lr 0.1 a\n"
    changed = cli.ok("run", "job.yml", "--set", "inputs.lr=0.5", "--set", "environment_variables.X=b c")
    assert changed.out == "0:0: lr 0.5 b c\n"
    assert unfolded(cli.ok("run", "job.yml", "-w", "2x1", "--set", "command=echo new").lines) == ["new"] * 2


def test_w_alone_sets_the_nodes(cli: Cli) -> None:
    cli.write("job.yml", ECHO)
    run = cli.run("job.yml", "-w", "3")
    assert (cli.status(run)["nodes"], cli.status(run)["ranks"]) == (3, 6)


def test_inputs_are_textual_as_on_azure(cli: Cli) -> None:
    """An input may hold several words; what looks like the shell's stays the shell's, per rank."""
    cli.write("job.yml", "command: printf '[%s]' ${{inputs.args}}\ninputs:\n  args: --lr 0.1 --name $RANK\n")
    assert cli.ok("run", "job.yml", "-w", "1x2").lines == ["0:0: [--lr][0.1][--name][0]", "0:1: [--lr][0.1][--name][1]"]


VALUES = [
    "two words",
    'it\'s "quoted"',
    "line one\nline two\n",
    "$(touch outputs/pwned) `touch outputs/pwned` $HOME",
    "größe 数 🦊",
    " lead and trail ",
    "back\\slash * ? [x] ; & | < > # !",
    "-n",
]


def test_a_rank_gets_an_inputs_exact_value(cli: Cli) -> None:
    numbers = range(len(VALUES))
    command = " ".join('"$WORLDSIZE_INPUT_TEXT%d"' % number for number in numbers)
    cli.write(
        "job.yml",
        "command: printf '%%s\\0' %s > outputs/exact\ninputs:\n%s"
        % (command, "".join("  text%d: x\n" % number for number in numbers)),
    )
    words = [("--set", "inputs.text%d=%s" % (number, _quoted(value))) for number, value in enumerate(VALUES)]
    run = cli.run("job.yml", *(word for each in words for word in each))
    assert cli.read(run, "outputs", "exact").split("\0") == [*VALUES, ""]
    assert os.listdir(cli.path(run, "outputs")) == ["exact"]


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def test_words_after_the_dashes_arrive_exactly(cli: Cli) -> None:
    cli.write("args.py", "import sys\nopen('outputs/args', 'w', newline='').write('|0|'.join(sys.argv[1:]))\n")
    words = [*VALUES, "--", *reversed(VALUES)]
    run = cli.run("--", "python", "args.py", *words)
    with open(cli.path(run, "outputs", "args"), newline="") as file:
        assert file.read().split("|0|") == words
    assert os.listdir(cli.path(run, "outputs")) == ["args"]


def test_outputs_and_logs_exist_before_the_command_and_are_kept(cli: Cli) -> None:
    run = cli.run(
        "--", "sh", "-c", "test -d outputs && test -d logs && echo w > outputs/model && echo l > logs/train.log"
    )
    assert cli.read(run, "outputs", "model") == "w\n"
    assert cli.read(run, "user_logs", "train.log") == "l\n"


def test_where_the_outputs_are_is_said(cli: Cli) -> None:
    result = cli.ok("run", "--", "sh", "-c", "echo w > outputs/model")
    assert result.err.endswith("outputs: %s\n" % cli.path(cli.latest(), "outputs"))
    assert "outputs:" not in cli.ok("run", "--", "true").err


def test_a_home_inside_the_code_is_not_part_of_it(cli: Cli) -> None:
    cli.write("train.py", "")
    for _ in range(2):
        result = cli.ok("run", "--", "find", ".", "-type", "f", WORLDSIZE_HOME="./.runs")
        assert result.out == "0:0: ./train.py\n"


def test_named_outputs_are_writable_directories(cli: Cli) -> None:
    cli.write(
        "job.yml", "command: echo w > ${{outputs.model}}/w && echo $WORLDSIZE_OUTPUT_MODEL\noutputs:\n  model: {}\n"
    )
    result = cli.ok("run", "job.yml")
    run = cli.latest()
    assert cli.read(run, "outputs", "model", "w") == "w\n"
    assert result.out == "0:0: %s\n" % cli.path(run, "outputs", "model")


def test_odd_output_passes(cli: Cli) -> None:
    """Bytes that are not UTF-8, NULs, a line without an end: shown with replacement, kept as they were."""
    run = cli.run("--", "sh", "-c", r"printf 'a\377b\n\000\033[2Jx\nlast'")
    assert cli.ok("logs", run).out == "0:0: a\ufffdb\n0:0: x\n0:0: last\n"
    with open(cli.path(run, "attempt-0", "logs", "rank-00000.log"), "rb") as file:
        assert file.read() == b"a\xffb\n\0\x1b[2Jx\nlast"


def test_a_line_of_ten_megabytes_passes(cli: Cli) -> None:
    result = cli.ok("run", "--", "sh", "-c", "head -c 10000000 /dev/zero | tr '\\0' x; echo end")
    assert result.out == "0:0: %send\n" % ("x" * 10_000_000)


def test_the_run_directory_is_private(cli: Cli) -> None:
    cli.lends = False
    cli.write("sub/code.py", "print(1)\n")
    run = cli.run("--", "sh", "-c", "echo x > outputs/x; mkdir outputs/d; python sub/code.py")
    modes = {}
    for folder, names, files in os.walk(cli.path(run)):
        for name in [*names, *files]:
            status = os.lstat(os.path.join(folder, name))
            if not stat.S_ISLNK(status.st_mode):
                modes[os.path.join(folder, name)] = status.st_mode
    made = cli.path(run, "outputs") + os.sep
    assert len(modes) > 20 and {made + "x", made + "d"} <= set(modes)
    modes = {path: mode for path, mode in modes.items() if not path.startswith(made)}  # ranks have the user's umask
    assert not {path: oct(mode) for path, mode in modes.items() if mode & 0o077}
    assert stat.S_IMODE(os.stat(cli.path(run)).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(cli.home).st_mode) == 0o700


def test_share_group_opens_the_run_to_the_group(cli: Cli) -> None:
    cli.write("job.yml", "command: echo x > outputs/x\nshare: group\noutputs: {model: {}}\n")
    run = cli.run("job.yml")
    ours = ("", "plan.json", "result.json", "attempt-0", "attempt-0/logs/rank-00000.log", "outputs", "outputs/model")
    for path in (*ours, "outputs/x"):
        mode = stat.S_IMODE(os.stat(cli.path(run, path)).st_mode)
        assert mode & 0o040, (path, oct(mode))
        assert not mode & (0o007 if path in ours else 0o022), (path, oct(mode))


def test_an_output_at_a_place_of_its_own_is_made_as_the_user_would_make_it(cli: Cli, tmp_path: Path) -> None:
    """It was for its owner alone, so that nobody else could read a checkpoint there."""
    cli.write("job.yml", "command: echo x > ${{outputs.model}}/x\noutputs: {model: {path: %s/own/model}}\n" % tmp_path)
    before = os.umask(0o022)
    try:
        cli.run("job.yml")
    finally:
        os.umask(before)
    modes = ["%03o" % stat.S_IMODE((tmp_path / each).stat().st_mode) for each in ("own", "own/model", "own/model/x")]
    assert modes == ["755", "755", "644"]


@pytest.mark.parametrize("key", ["compute", "environment: {file", "environment: {python", "stage: {huggingface"])
def test_secrets_stay_out_of_errors(cli: Cli, key: str) -> None:
    """Found by review: a value that is none was repeated as it stands."""
    cli.write("job.yml", "command: 'true'\n%s: 'https://me:hunter2-url@host/x'%s\n" % (key, "}" * key.count("{")))
    refused = cli("run", "--dry-run", "job.yml")
    assert refused.code != 0 and "https://me:***@host/x" in refused.err and "hunter2" not in refused.err


def test_secrets_stay_out_of_the_record(cli: Cli) -> None:
    cli.write("job.yml", "command: test ${#API_TOKEN} = 11\nenvironment_variables:\n  API_TOKEN: x\n")
    words = ("job.yml", "--set", "environment_variables.API_TOKEN=hunter2-job")
    run = cli.ok("run", *words, DB_PASSWORD="hunter2-env", URL="https://me:hunter2-url@host/")
    run_id = cli.latest()
    assert "hunter2" not in cli.read(run_id, "record.json")
    assert "hunter2" not in run.out + run.err
    assert "hunter2" not in cli.ok("run", *words, "--dry-run").out


def test_a_compute_may_name_its_own_runs_dir(cli: Cli) -> None:
    cli.write("worldsize.toml", '[compute.scratch]\ntype = "local"\nruns_dir = "scratch/runs"\ngrace = 3\n')
    run = cli.run("--compute", "scratch", "--", "echo", "hi")
    assert os.path.isfile(os.path.join(cli.project, "scratch", "runs", run, "plan.json"))
    assert cli.ok("logs", run, cwd=cli.root).out == "0:0: hi\n"
    assert cli.status(run)["compute"] == "scratch"
    assert os.path.realpath(cli.path(run)) == os.path.realpath(os.path.join(cli.project, "scratch", "runs", run))


def test_the_default_compute_is_configured(cli: Cli) -> None:
    cli.write("worldsize.toml", 'default_compute = "other"\n[compute.other]\ntype = "local"\n')
    assert cli.status(cli.run("--", "true"))["compute"] == "other"
    assert cli.status(cli.run("--compute", "local", "--", "true"))["compute"] == "local"


def test_azure_keys_are_kept_and_reported(cli: Cli) -> None:
    text = "environment: azureml:AzureML-pytorch-1.9@latest\nresources:\n  instance_type: Standard_NC6\n"
    cli.write("job.yml", "$schema: https://x/commandJob.schema.json\ncommand: 'true'\n" + text)
    result = cli.ok("run", "job.yml")
    assert "resources.instance_type" in result.err and "environment" in result.err


def test_extras_under_distribution_only_warn(cli: Cli) -> None:
    cli.write("job.yml", "command: 'true'\ndistribution:\n  type: PyTorch\n  added_property: {a: 1}\n")
    result = cli.ok("run", "job.yml")
    assert re.search(r"warning: job.yml:4: .*added_property", result.err), result.err


def test_more_ranks_than_cores_is_a_notice(cli: Cli) -> None:
    cores = len(os.sched_getaffinity(0))
    result = cli.ok("run", "-w", "1x%d" % (cores + 1), "--", "true")
    assert "notice: %d ranks share this machine's %d core" % (cores + 1, cores) in result.err


def test_several_runs_at_a_time(cli: Cli) -> None:
    """Twelve runs at once: each is its own, with its own port; and all of them make what a home has for all."""
    cli.lends = False
    started = [cli.start("run", "-w", "2x1", "--", "sh", "-c", "echo %d $MASTER_PORT" % i) for i in range(12)]
    outputs = [process.communicate(timeout=60)[0].decode() for process in started]
    assert [process.returncode for process in started] == [0] * 12
    assert [output.split()[1] for output in outputs] == [str(i) for i in range(12)]
    assert len(cli.json("list")) == 12


def test_the_stdin_of_a_rank_is_empty(cli: Cli) -> None:
    assert cli.ok("run", "--", "cat").out == ""


@pytest.mark.parametrize("words", ["run -- true", "run job.yml", "status", "run --code . -- true"])
def test_in_a_directory_that_is_gone(cli: Cli, words: str) -> None:
    gone = os.path.join(cli.root, "gone")
    os.mkdir(gone)
    script = 'cd "%s" && rmdir "%s" && exec "%s" -m worldsize %s' % (gone, gone, sys.executable, words)
    ended = subprocess.run(["sh", "-c", script], env=cli.environ, capture_output=True, text=True, check=False)
    assert ended.returncode == 2 and "Traceback" not in ended.stderr, ended
    assert not os.path.exists(cli.home)


def test_what_others_wrote_cannot_drive_the_terminal(cli: Cli) -> None:
    """A rank's exception, and a job's name, come from whoever wrote the code."""
    cli.write("evil.py", 'raise ValueError("\\x1b]0;title\\x07\\x1b[2Jgone\\x9b2J\\nline two")\n')
    result = cli("run", "--name", "a\nb\x1b[31m", "--", "python", "evil.py")
    shown = result.out + result.err + cli.ok("list").out + cli.ok("status").out + cli("run", "\x1b[2J").err
    assert "gone" in shown and not {"\x1b", "\x07", "\x9b"} & set(shown)
    assert cli.json("list")[0]["name"] == "a\nb\x1b[31m"
    assert len(cli.ok("list").lines) == 2


def test_more_nodes_than_open_files(cli: Cli) -> None:
    """The soft limit is no limit; the hard one is said before anything starts."""
    script = 'ulimit -%s 64; exec "%s" -m worldsize run -q -w %s -- true'
    for kind, world, code in (("Sn", "70x1", 0), ("n", "210x1", 2)):
        words = ["bash", "-c", script % (kind, sys.executable, world)]
        ended = subprocess.run(words, cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False)
        assert ended.returncode == code, ended
    assert "open files" in ended.stderr and len(cli.json("list")) == 1


def test_more_processes_than_the_machine_can_hold(cli: Cli) -> None:
    script = 'ulimit -u 1000; exec "%s" -m worldsize run -w 500x2 -- true' % sys.executable
    ended = subprocess.run(
        ["bash", "-c", script], cwd=cli.project, env=cli.environ, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2 and "1500 processes, and this machine allows" in ended.stderr, ended
    assert not os.path.exists(cli.home)


def test_starting_imports_nothing_dear(cli: Cli) -> None:
    dear = {"typing", "dataclasses", "inspect", "pathlib", "shutil", "tempfile", "subprocess", "logging", "yaml"}
    for words in ("run -w 1x2 -- true", "run -w 2x1 -- true", "submit -- true", "status", "logs"):
        told = cli.ok(*words.split(), PYTHONPROFILEIMPORTTIME="1").err
        imported = {line.rpartition("|")[2].strip() for line in told.splitlines() if line.startswith("import time:")}
        assert "argparse" in imported, words
        assert imported & dear == set(), words


@pytest.mark.exhaustive(unless=["agents-0.15", "srun-2"])
@pytest.mark.parametrize("seconds", [0.15, 2])
@pytest.mark.parametrize("by", ["agents", "srun"])
def test_a_rank_that_aborts_for_want_of_its_peer_is_not_blamed(cli: Cli, by: str, seconds: float) -> None:
    """As gloo's and NCCL's threads do it, while the peer's interpreter is still ending."""
    cli.write(
        "train.py",
        "import atexit, os, time\n"
        "if os.environ['SLURM_PROCID'] == '1':\n"
        "    atexit.register(time.sleep, %g)\n"
        "    raise ValueError('bad batch')\n"
        "while not os.path.exists(os.environ['WORLDSIZE_ERROR_FILE'].replace('00000', '00001')):\n"
        "    time.sleep(0.005)\n"
        "os.abort()\n" % seconds,
    )
    cli.write("job.slurm", "#!/bin/bash\n#SBATCH --ntasks=2\nulimit -c 0\nsrun --kill-on-bad-exit=1 python train.py\n")
    words = ["job.slurm"] if by == "srun" else ["-w", "1x2", "--", "python", "train.py"]
    cli("run", *words)
    failure = cli.status()["failure"]
    assert (failure["rank"], failure["code"]) == (1, 1) and "bad batch" in failure["message"], failure


def test_a_rank_that_aborts_by_itself_is_blamed(cli: Cli) -> None:
    """The other raises as soon as that rank's agent has seen its end."""
    cli.write(
        "train.py",
        "import os, resource, time\n"
        "if os.environ['RANK'] == '0':\n"
        "    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        "    with open('pid', 'w') as file:\n"
        "        file.write(str(os.getpid()))\n"
        "    os.rename('pid', 'failing')\n"
        "    os.abort()\n"
        "while not os.path.exists('failing'):\n"
        "    time.sleep(0.005)\n"
        "with open('failing') as file:\n"
        "    first = '/proc/' + file.read()\n"
        "while os.path.exists(first):\n"
        "    time.sleep(0.005)\n"
        "raise ValueError('what other ranks make of it')\n",
    )
    assert cli("run", "-w", "1x2", "--", "python", "train.py").code == 134
    assert cli.status()["failure"]["rank"] == 0
