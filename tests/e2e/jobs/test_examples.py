"""Every example runs from its job file, and what it computes is right."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from driver import SOURCE, Cli

pytest.importorskip("torch")
pytest.importorskip("sklearn")

EXAMPLES = os.path.join(os.path.dirname(SOURCE), "examples")
# Every example holds to at most one thread per rank, so that two tests side by side do not starve each other.
pytestmark = [pytest.mark.timeout(300), pytest.mark.training]


def job(name: str) -> str:
    return os.path.join(EXAMPLES, name, "job.yml")


def python(*words: str, cwd: str | Path | None = None, **environ: str) -> str:
    done = subprocess.run(
        [sys.executable, *words], cwd=cwd, env={**os.environ, **environ}, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def trained(cli: Cli, *words: str, ranks: int) -> list[str]:
    """What each rank printed, once the run has succeeded."""
    result = cli("run", *words, timeout=240)
    assert result.code == 0, result
    return [cli.read(cli.latest(), "attempt-0", "logs", "rank-%05d.log" % rank) for rank in range(ranks)]


def accuracy(log: str) -> float:
    found = re.findall(r"^accuracy=(\d\.\d+)$", log, re.MULTILINE)
    assert len(found) == 1, log
    return float(found[0])


@pytest.mark.exhaustive(unless=["2x2"])
@pytest.mark.parametrize("words", [(), ("-w", "1x8"), ("-w", "2x8")], ids=["2x2", "1x8", "2x8"])
def test_hello_prints_what_the_slurm_tutorial_prints(cli: Cli, words: tuple[str, ...]) -> None:
    """In the sizes of its two scripts, too: how many GPUs Slurm has allocated is seen on Slurm, in tests/slurm."""
    nodes, processes = (int(number) for number in (words[1] if words else "2x2").split("x"))
    ranks = nodes * processes
    logs = trained(cli, job("hello"), *words, ranks=ranks)
    host = re.escape(os.uname().nodename)
    for rank, log in enumerate(logs):
        lines = [r"WORLD_SIZE=%d MASTER_PORT=\d+ MASTER_ADDR=127\.0\.0\.1" % ranks] if rank == 0 else []
        lines += [r"Hello from rank %d of %d on %s where there are \d+ allocated GPUs per node\." % (rank, ranks, host)]
        lines += [r"Group initialized\? True"] if rank == 0 else []
        lines += ["host: %s, rank: %d, local_rank: %d" % (host, rank, rank % processes)]
        assert re.fullmatch("".join(line + "\n" for line in lines), log), log
    assert (cli.status()["nodes"], cli.status()["ranks"]) == (nodes, ranks)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", [", init_method='env://'", ""], ids=["env", "default"])
def test_a_process_group_is_made_with_env_and_without_an_init_method(cli: Cli, method: str) -> None:
    cli.write(
        "train.py",
        "import torch.distributed as dist\n"
        "dist.init_process_group(backend='gloo'%s)\n"
        "print(dist.get_backend(), dist.get_rank(), dist.get_world_size(), flush=True)\n"
        "dist.barrier()\n"
        "dist.destroy_process_group()\n" % method,
    )
    result = cli("run", "-w", "2x1", "--fold", "off", "--", "python", "train.py", timeout=240)
    assert (result.code, sorted(result.lines)) == (0, ["0:0: gloo 0 2", "1:1: gloo 1 2"]), result


@pytest.mark.parametrize("name", ["azure-cifar", "digits", "mnist", "mpi-torch", "toy-ddp"])
def test_scripts_of_the_examples_with_ddp_need_nothing_of_worldsizes(name: str) -> None:
    text = "".join(path.read_text() for path in Path(EXAMPLES, name, "src").glob("*.py"))
    assert re.search(r"\bDistributedDataParallel\(|\bDDP\(", text)
    assert not re.search(r"^\s*(import|from) worldsize|WORLDSIZE_", text, re.MULTILINE)


def test_digits_learns_on_four_ranks(cli: Cli) -> None:
    logs = trained(cli, job("digits"), "-w", "2x2", ranks=4)
    kept = Path(cli.path(cli.latest(), "code", "train.py")).read_bytes()
    assert kept == Path(EXAMPLES, "digits", "src", "train.py").read_bytes(), "the script runs as it is"
    assert accuracy(logs[0]) >= 0.95
    assert logs[1:] == ["", "", ""]
    assert len(re.findall(r"^epoch +\d+/10  loss=\d", logs[0], re.MULTILINE)) == 10
    assert os.path.getsize(cli.path(cli.latest(), "outputs", "model.pt")) > 10_000


@pytest.mark.exhaustive
def test_digits_learns_as_much_on_any_number_of_ranks(cli: Cli) -> None:
    worlds = ("1x1", "1x2", "2x2", "1x8")
    found = [accuracy(trained(cli, job("digits"), "-w", world, ranks=1)[0]) for world in worlds]
    assert min(found) >= 0.95 and max(found) - min(found) < 0.02, found


@pytest.mark.exhaustive
def test_digits_takes_its_inputs_from_the_job(cli: Cli) -> None:
    words = ("--set", "inputs.epochs=1", "--set", "inputs.lr=0", "-w", "1x2")
    log = trained(cli, job("digits"), *words, ranks=2)[0]
    assert "epoch  1/1" in log
    assert accuracy(log) < 0.3


@pytest.mark.exhaustive
def test_mnist_trains_the_tutorials_network_on_digits(cli: Cli) -> None:
    data = os.path.join(cli.root, "data")
    python(os.path.join(EXAMPLES, "mnist", "make_digits.py"), data)
    words = ("-w", "1x2", "--set", "inputs.data.path=" + data, "--set", "inputs.epochs=3")
    log = trained(cli, job("mnist"), *words, ranks=2)[0]
    assert "\n  epochs: 14\n" in Path(job("mnist")).read_text(), "as many as the tutorial's, where nothing else is said"
    assert re.search(r"^Train Epoch: 1 \[0/1437 \(0%\)\]\tLoss: \d\.\d{6}$", log, re.MULTILINE)
    # 719 images per rank are 12 batches of 64: the eleventh begins after 640 of them.
    assert re.search(r"^Train Epoch: 3 \[640/1437 \(83%\)\]\tLoss: ", log, re.MULTILINE)
    tests = re.findall(r"^Test set: Average loss: (\d\.\d{4}), Accuracy: (\d+)/360 \((\d+)%\)$", log, re.MULTILINE)
    assert len(tests) == 3
    assert int(tests[-1][1]) > 0.9 * 360
    assert round(100 * int(tests[-1][1]) / 360) == int(tests[-1][2])
    assert os.path.exists(cli.path(cli.latest(), "outputs", "mnist_cnn.pt"))


def test_mnist_without_its_data_says_so_and_creates_nothing(cli: Cli) -> None:
    result = cli("run", job("mnist"), "--set", "inputs.data.path=/no/such/folder")
    assert result.code == 2
    assert "/no/such/folder" in result.err
    assert cli.json("list") == []


def test_mnist_files_are_read_plain_and_zipped_and_refused_when_cut(tmp_path: Path) -> None:
    program = (
        "import gzip, os, sys, numpy as np\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from idx import read_idx, write_idx\n"
        "whole = np.arange(24, dtype=np.uint8).reshape(2, 3, 4)\n"
        "write_idx('a', whole)\n"
        "content = open('a', 'rb').read()\n"
        "assert content[:16] == bytes.fromhex('00000803 00000002 00000003 00000004'), content\n"
        "assert (read_idx('a') == whole).all()\n"
        "with gzip.open('b.gz', 'wb') as file: file.write(content)\n"
        "assert (read_idx('b') == whole).all()\n"
        "for bad in (content[:-1], b'', b'\\x01' + content):\n"
        "    open('c', 'wb').write(bad)\n"
        "    try:\n"
        "        read_idx('c')\n"
        "    except ValueError as error:\n"
        "        print(error)\n"
    )
    said = python("-c", program, os.path.join(EXAMPLES, "mnist", "src"), cwd=tmp_path).splitlines()
    assert len(said) == 3
    assert "cut short" in said[0]


def toy_losses(cli: Cli) -> list[float]:
    """The loss of each of the example's first six epochs."""
    words = ("--set", "inputs.procs=1", "--set", "inputs.epochs=6", "--set", "inputs.save_every=4")
    printed = "".join(trained(cli, job("toy-ddp"), *words, ranks=2))
    assert "resumed" not in printed
    return [float(loss) for loss in re.findall(r"^epoch \d+/6 loss=([\d.]+)$", printed, re.MULTILINE)]


@pytest.mark.exhaustive
def test_toy_ddp_is_started_by_its_own_torchrun_line(cli: Cli) -> None:
    losses = toy_losses(cli)
    assert len(losses) == 6 and losses[-1] < 0.2 * losses[0]
    assert os.path.exists(cli.path(cli.latest(), "outputs", "checkpoint.pt"))


@pytest.mark.exhaustive
def test_toy_ddp_resumes(cli: Cli) -> None:
    losses = toy_losses(cli)
    earlier = cli.path(cli.latest(), "outputs")
    words = ("--set", "inputs.procs=1", "--set", "inputs.epochs=8", "--set", "inputs.resume=" + earlier)
    second = "".join(trained(cli, job("toy-ddp"), *words, ranks=2))
    assert "resumed from epoch 6\n" in second
    assert re.findall(r"^epoch (\d+)/8", second, re.MULTILINE) == ["7", "8"]
    assert float(re.findall(r"^final loss=([\d.]+)$", second, re.MULTILINE)[0]) < losses[-1]


@pytest.mark.exhaustive
def test_toy_ddp_refuses_to_resume_from_nothing(cli: Cli) -> None:
    result = cli("run", job("toy-ddp"), "--set", "inputs.procs=1", "--set", "inputs.resume=/no/such", timeout=120)
    assert result.code != 0
    assert "no checkpoint in /no/such" in result.out + result.err
    assert cli.status()["state"] == "FAILED"


@pytest.fixture
def cifar(cli: Cli) -> str:
    python(os.path.join(EXAMPLES, "azure-cifar", "make_small_cifar.py"), os.path.join(cli.root, "cifar"))
    return os.path.join(cli.root, "cifar")


@pytest.mark.exhaustive
def test_azure_cifar_takes_the_guides_eight_arguments(cli: Cli, cifar: str) -> None:
    words = ("--set", "inputs.cifar.path=" + cifar, "--set", "inputs.prtfreq=4")
    log = trained(cli, job("azure-cifar"), *words, ranks=2)[0]
    argv = json.loads(cli.read(cli.latest(), "plan.json"))["argv"][-1]
    arguments = dict(re.findall(r"--([\w-]+) (\S+)", argv))
    assert arguments == {
        "data-dir": cifar, "epochs": "10", "batch-size": "64", "workers": "2", "learning-rate": "0.01",
        "momentum": "0.9", "print-freq": "4", "model-dir": "./outputs",
    }  # fmt: skip
    assert accuracy(log) >= 0.9
    assert "epoch 10, batch 4/8: loss " in log
    assert os.path.exists(cli.path(cli.latest(), "outputs", "cifar_net.pt"))


def test_the_azure_guides_python_sample(cli: Cli) -> None:
    folder = os.path.join(EXAMPLES, "azure-cifar")
    printed = python("submit.py", cwd=folder, **cli.environ)
    assert printed.startswith("SUCCEEDED\n")
    assert accuracy(printed) >= 0.9
    assert cli.status(cli.latest())["nodes"] == 2


def test_azure_cifar_reads_no_pickle_that_calls_functions(tmp_path: Path) -> None:
    program = (
        "import os, pickle, sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from cifar import read_batch\n"
        "class Bad:\n"
        "    def __reduce__(self):\n"
        "        return os.mkdir, ('called',)\n"
        "pickle.dump(Bad(), open('batch', 'wb'))\n"
        "try:\n"
        "    read_batch('batch')\n"
        "except pickle.UnpicklingError as error:\n"
        "    print(error, os.path.exists('called'))\n"
    )
    said = python("-c", program, os.path.join(EXAMPLES, "azure-cifar", "src"), cwd=tmp_path)
    assert said == "not a batch of images: it asks for posix.mkdir False\n"
