"""What a job on offline nodes would download, by reading its files: file, line, and which part of `stage:` is the
mend."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from worldsize.wings.checks.script.findings import downloads, script_findings
from worldsize.wings.checks.script.request import ScriptFinding, ScriptRequest

HINTS = {
    "huggingface": "stage: {huggingface: [%s]}",
    "torch_hub": "stage: {torch_hub: [%s]}",
    "pip": "stage: {pip: requirements.txt}, or build it into the environment",
    "data": "name the data as an input, or under stage: {data: …}",
    "service": "build it into the environment",
    "wandb": "set WANDB_MODE=offline, and `wandb sync` afterwards",
}
OFFLINE = "would fail: the nodes reach no network"


def still() -> float:
    return 0.0


def offline(tmp_path: Path, *texts: str, **said: Any) -> ScriptRequest:
    return ScriptRequest(str(tmp_path), (), texts=texts, offline=True, **said)


def found_in(tmp_path: Path, script: str, command: str = "python train.py", **files: str) -> list[ScriptFinding]:
    for name, text in {"train.py": script, **files}.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    found = downloads(offline(tmp_path, command), still)
    assert all(each.id == "script.downloads" and each.what.endswith(" " + OFFLINE) for each in found)
    return found


def hint_of(kind: str, name: str) -> str:
    return HINTS[kind] % (name or "…") if "%s" in HINTS[kind] else HINTS[kind]


@pytest.mark.parametrize(
    ("script", "what", "kind", "name"),
    [
        ("import torchvision\nx = torchvision.datasets.MNIST('d', download=True)", "MNIST(download=True)", "data", ""),
        ("from torchvision import datasets as d\nd.CIFAR10(root, train=True, download=True)", "CIFAR10", "data", ""),
        ("from transformers import AutoModel as A\nA.from_pretrained('gpt2')", "'gpt2'", "huggingface", "gpt2"),
        (
            "import transformers\ntransformers.AutoTokenizer.from_pretrained(pretrained_model_name_or_path='o/n')",
            "'o/n'",
            "huggingface",
            "o/n",
        ),
        ("from x import M\nM.from_pretrained(name)", "from_pretrained(…)", "huggingface", ""),
        ("from datasets import load_dataset\nload_dataset('squad')", "'squad'", "huggingface", "datasets/squad"),
        ("from transformers import pipeline\npipeline('ner', model='o/n')", "'o/n'", "huggingface", "o/n"),
        ("import huggingface_hub as h\nh.snapshot_download('o/n')", "'o/n'", "huggingface", "o/n"),
        ("import torch\ntorch.hub.load('o/n:v1', 'resnet')", "'o/n:v1'", "torch_hub", "o/n:v1"),
        ("from torch import hub\nhub.load('o/n', 'm')", "torch.hub.load", "torch_hub", "o/n"),
        ("import torch\ntorch.hub.load_state_dict_from_url(URL)", "load_state_dict_from_url", "torch_hub", ""),
        ("from torchvision.models import resnet50\nresnet50(weights='DEFAULT')", "weights", "torch_hub", ""),
        ("import timm\ntimm.create_model('vit', pretrained=True)", "weights", "torch_hub", ""),
        ("import urllib.request\nurllib.request.urlretrieve(URL, 'x')", "urlretrieve", "data", ""),
        ("from urllib.request import urlopen as u\nu(URL)", "urlopen", "data", ""),
        ("import requests\nrequests.get('https://x')", "requests.get", "data", ""),
        ("import tensorflow as tf\ntf.keras.datasets.mnist.load_data()", "mnist.load_data", "data", ""),
        ("from sklearn.datasets import fetch_openml\nfetch_openml('mnist')", "fetch_openml", "data", ""),
        ("import nltk\nnltk.download('punkt')", "nltk.download", "data", ""),
        ("import wandb\nwandb.init(project='x')", "wandb.init", "wandb", ""),
        ("import os\nos.system('pip install numpy')", "pip install", "pip", ""),
        ("import subprocess\nsubprocess.run(['git', 'clone', url])", "git clone", "data", ""),
    ],
)
def test_what_downloads(tmp_path: Path, script: str, what: str, kind: str, name: str) -> None:
    (found,) = found_in(tmp_path, script)
    assert (found.file, found.line, found.hint) == ("train.py", 2, hint_of(kind, name)) and what in found.what


@pytest.mark.parametrize(
    "script",
    [
        "from torchvision.datasets import MNIST\nMNIST('d', download=False)\nMNIST('d', train=download)",
        "from transformers import AutoModel\nAutoModel.from_pretrained('./local')\nAutoModel.from_pretrained('/abs')",
        "from transformers import AutoModel\nAutoModel.from_pretrained('gpt2', local_files_only=True)",
        "from transformers import AutoModel\nAutoModel.from_pretrained('checkpoints')",
        "from datasets import load_dataset\nload_dataset('csv', data_files='x.csv')",
        "import torch\ntorch.hub.load('dir', 'm', source='local')\ntorch.load('x')",
        "from mine import load_data\nload_data()\nimport os\nos.system('pip list')",
        "import subprocess\nsubprocess.run(['nvidia-smi'])",
        "requests.get",
        "def from_pretrained(x): ...\nfrom_pretrained('gpt2')",
        "import wandb\nwandb.init(mode='offline')",
        "this is no Python ((",
    ],
)
def test_what_does_not(tmp_path: Path, script: str) -> None:
    assert found_in(tmp_path, script, checkpoints__config="{}") == []


def test_modules_are_found_too(tmp_path: Path) -> None:
    call = "import requests\nrequests.get('https://x')\n"
    found = found_in(tmp_path, "", "python -m pkg.train; python -m pkg", pkg__train=call, **{"pkg__train.py": call})
    assert [each.file for each in found] == ["pkg/train.py"]


def test_files_that_are_imported_are_read_too_and_others_are_not(tmp_path: Path) -> None:
    call = "import requests\nrequests.get('https://x')\n"
    found = found_in(
        tmp_path,
        "import data\nfrom pkg import loader\nimport train\nfrom missing import x\n",
        **{"data.py": call, "pkg____init__.py": "", "pkg__loader.py": "from .deep import x\n", "pkg__deep.py": call},
        **{"other.py": call},
    )
    assert [each.file for each in found] == ["data.py", "pkg/deep.py"]


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


def test_a_program_that_cannot_be_parsed(tmp_path: Path) -> None:
    """Found by review: the parser's MemoryError was a traceback."""
    (tmp_path / "t.py").write_text("-" * 200_000 + "1")
    (tmp_path / "u.py").write_text("import t\nimport wandb\nwandb.init()\n")
    assert downloads(offline(tmp_path, "python t.py"), still) == []
    assert [each.what for each in downloads(offline(tmp_path, "python u.py"), still)] == ["wandb.init(…) " + OFFLINE]
