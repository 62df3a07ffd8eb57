"""What a job on offline nodes would download by its command and its batch script, and which scripts these start."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from offline_jobs import ARGS, GET, HF, OFFLINE, WEB, found_in, hint_of, offline, still
from selection import cases

from worldsize.wings.checks.script.downloads.commands import command_download
from worldsize.wings.checks.script.downloads.reading import scripts_in_text
from worldsize.wings.checks.script.findings import downloads, script_findings
from worldsize.wings.checks.script.reading.shell_text import shell_commands

PIECES = [
    *"'\"\\\n;&|()<>#$ {}!-", "if ", "then ", "elif ", "else ", "fi", "case x in ", "esac", "for x in y; do ", "while ",
    "done", "cd ", "pip install x", "wget ", "git -C ", "git clone", "bash -c ", "python -m ", "<<EOF\n", "EOF\n",
    "x.py ", "A=1 ", "uv pip ", "conda ", "hf download", "…", "srun ", "curl http://localhost", "\0",
]  # fmt: skip


@pytest.mark.parametrize(
    ("command", "what", "kind"),
    [
        ("pip install -r requirements.txt && python train.py", "pip install", "pip"),
        ("uv pip install numpy; python train.py", "uv pip install", "pip"),
        ("conda install -y numpy", "conda install", "service"),
        ("wget https://x/y && tar xf y", "wget", "data"),
        ("curl -LO https://x/y", "curl", "data"),
        ("hf download gpt2", "hf download", "huggingface"),
        ("git clone https://x/y", "git clone", "data"),
    ],
)
def test_the_command_is_read_too(tmp_path: Path, command: str, what: str, kind: str) -> None:
    (found,) = found_in(tmp_path, "", command)
    assert (found.file, found.line, found.verdict) == ("", 0, "bad") and what in found.what
    assert found.hint == hint_of(kind, "gpt2")
    assert found_in(tmp_path, "", "pip install --no-index x; python train.py") == []


def test_an_option_of_the_command_decides(tmp_path: Path) -> None:
    script = ARGS + f"if a.fetch:\n    {GET}\n"
    assert [each.line for each in found_in(tmp_path, script, "srun python train.py --fetch")] == [6]


@pytest.mark.parametrize(
    "text",
    [
        "# pip install numpy",
        "python train.py  # don't pip install numpy",
        "echo 'pip install numpy' && pip list && pip install --help",
        "cat > notes <<EOF\npip install numpy\nEOF",
        "[ -d data ] || wget https://x/y",
        "test -d data && git pull",
        "if [ ! -f x.tar ]; then\n  wget https://x/y\nfi",
        "pip install --no-deps ./wheels/x.whl",
        "PIP_NO_INDEX=1 pip install numpy",
        "export PIP_NO_INDEX=1\npip install numpy",
        "pip install --no-index \\\n  numpy",
        "conda create --offline -n x",
        "git clone /share/code\ngit status\ngit -C code log",
        "curl http://localhost:8080/health\ncurl --version",
        "bash -c '[ -f x ] || wget https://x/y'",
        "python -c 'print(\"wget https://x/y\")'",
        "cp fetch.py work/ && cat fetch.py",
    ],
)
def test_commands_that_download_nothing(tmp_path: Path, text: str) -> None:
    assert found_in(tmp_path, "", text, **{"fetch.py": WEB + GET}) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("#!/bin/bash\n#SBATCH -N 2\n\nsrun -N 2 pip install x", "pip install"),
        ("python3 -m pip install x", "pip install"),
        ("if [ $SLURM_LOCALID = 0 ]; then pip install x; fi", "pip install"),
        ("for n in a b; do\n  wget https://x/$n\ndone", "wget"),
        ("sudo apt-get -y install git", "apt-get install"),
        ("bash -lc 'module load x && pip install x'", "pip install"),
        ("echo it's on\npip install x", "pip install"),
        ("cd src && conda env update -f env.yml", "conda env update"),
        ("pip install x || true", "pip install"),
        ("apptainer exec --nv a.sif pip install x", "pip install"),
    ],
)
def test_commands_that_do(tmp_path: Path, text: str, what: str) -> None:
    assert [each.what for each in found_in(tmp_path, "", text)] == [f"{what} {OFFLINE}"]


def test_a_block_that_ends_before_its_test_does() -> None:
    assert [each.words for each in shell_commands("if a; fi; then pip install x; fi")] == [("pip", "install", "x")]


@settings(max_examples=cases(200), deadline=None)
@given(st.lists(st.sampled_from(PIECES)))
def test_pieces_of_shell_are_survived(pieces: list[str]) -> None:
    text = "".join(pieces)
    for command in shell_commands(text):
        assert command.words
        command_download(command)
    scripts_in_text(text)


@pytest.mark.parametrize(
    "text",
    [
        "cd src && python fetch.py",
        "srun -n1 python src/fetch.py\nsrun python train.py",
        "torchrun --nproc_per_node 2 src/fetch.py --x",
        "cp x.py y.py; bash -c 'cd src; exec python -u fetch.py'",
        "python -m src.fetch",
    ],
)
def test_scripts_that_a_text_starts(tmp_path: Path, text: str) -> None:
    found = found_in(tmp_path, "", text, **{"src__fetch.py": WEB + GET})
    assert [(each.file, each.line) for each in found] == [("src/fetch.py", 2)]


def test_a_script_outside_the_code(tmp_path: Path) -> None:
    script = tmp_path / "far" / "fetch.py"
    script.parent.mkdir()
    script.write_text(WEB + GET)
    for code in (tmp_path / "code", ""):
        request = offline(tmp_path, f"python {script}")._replace(code_dir=str(code))
        assert [(each.file, each.line) for each in downloads(request, still)] == [(str(script), 2)]
    assert [each.file for each in downloads(offline(tmp_path, f"python {script}"), still)] == ["far/fetch.py"]


STAGE = {
    "pip": ["numpy"], "data": {"x": "https://x"}, "torch_hub": ["o/n:v1", "https://x/w.pth"],
    "huggingface": ["gpt2@main *.json", "datasets/squad"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("script", "staged"),
    [
        (HF + "AutoModel.from_pretrained('gpt2')", True),
        (HF + "AutoModel.from_pretrained('bert')", False),
        (HF + "AutoModel.from_pretrained(name)", True),
        ("from datasets import load_dataset\nload_dataset('squad')", True),
        ("from datasets import load_dataset\nload_dataset('gpt2')", False),
        ("import torch\ntorch.hub.load('o/n', 'm')\ntorch.hub.load_state_dict_from_url('https://x/w.pth')", True),
        ("import torch\ntorch.hub.load('o/other', 'm')", False),
        (WEB + GET, True),
        ("import os\nos.system('pip install x')", True),
        ("import wandb\nwandb.init()", False),
    ],
)
def test_what_is_staged_is_not_told(tmp_path: Path, script: str, staged: bool) -> None:
    (tmp_path / "train.py").write_text(script)
    found = downloads(offline(tmp_path, "python train.py", stage=STAGE), still)
    assert (found == []) == staged


def test_secrets_in_addresses_are_not_told(tmp_path: Path) -> None:
    url = "https://ada:hunter2hunter2@x.example.org/w.pth?sig=hunter3hunter3"
    (found,) = found_in(tmp_path, f"import torch\ntorch.hub.load_state_dict_from_url({url!r})")
    assert found.hint == "stage: {torch_hub: [https://x.example.org/w.pth?…]}" and "hunter" not in str(found)


def test_the_first_eight_are_told_and_how_many_more(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WEB + (GET + "\n") * 11)
    found = downloads(offline(tmp_path, "python train.py"), still)
    assert [each.line for each in found] == list(range(2, 11))
    assert found[-1].what == "3 more downloads would fail on the nodes"


def test_they_are_among_the_rows_of_the_script_where_the_nodes_are_offline(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WEB + GET)
    request = offline(tmp_path, "python train.py")._replace(argv=("python", "train.py"))
    assert [each.id for each in script_findings(request, still)] == ["script.downloads"]
    assert script_findings(request._replace(offline=False), still) == []
