"""What a job on offline nodes would download, by reading its files: file, line, and which part of `stage:` is the
mend."""

from __future__ import annotations

from pathlib import Path

import pytest
from offline_jobs import ARGS, GET, HF, OFFLINE, WEB, found_in, hint_of, offline, still

from worldsize.wings.checks.script.findings import downloads


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


def test_a_program_that_cannot_be_parsed(tmp_path: Path) -> None:
    """Found by review: the parser's MemoryError was a traceback."""
    (tmp_path / "t.py").write_text("-" * 200_000 + "1")
    (tmp_path / "u.py").write_text("import t\nimport wandb\nwandb.init()\n")
    assert downloads(offline(tmp_path, "python t.py"), still) == []
    assert [each.what for each in downloads(offline(tmp_path, "python u.py"), still)] == ["wandb.init(…) " + OFFLINE]


@pytest.mark.parametrize(
    "script",
    [
        # is it there already?
        WEB + f"if not os.path.exists('x'):\n    {GET}",
        WEB + f"if os.path.isfile('x'):\n    sys.exit()\n{GET}",
        WEB + f"os.path.exists('x') or {GET}",
        WEB + f"rank = int(os.environ['RANK'])\nif rank == 0 and not os.path.exists('x'):\n    {GET}",
        # nobody asks for it
        WEB + f"def fetch():\n    {GET}",
        ARGS + f"if a.fetch:\n    {GET}",
        ARGS + f"if not a.fetch:\n    print()\nelse:\n    {GET}",
        ARGS + f"if not a.fetch:\n    sys.exit()\n{GET}",
        ARGS + f"if a.unknown == 'x':\n    {GET}",
        # its failure is expected
        WEB + f"try:\n    {GET}\nexcept Exception:\n    pass",
        WEB + f"try:\n    open('x')\nexcept OSError:\n    {GET}",
        "import contextlib\n" + WEB + f"with contextlib.suppress(OSError):\n    {GET}",
        # it is near, or is no address
        WEB + "requests.get('http://localhost:8000/health')",
        WEB + "requests.get('http://10.1.2.3/x')\nrequests.get('http://head:8000/x')",
        "from urllib.request import urlopen\nurlopen('file:///data/x')",
        "from torch.hub import load_state_dict_from_url as f\nf('file:///data/x.pth')",
        "requests = Requests()\nrequests.get('https://data.example.org/x')",
        # a path, not a name
        HF + "AutoModel.from_pretrained(model_path)\nAutoModel.from_pretrained(args.output_dir)",
        HF + "import os\nAutoModel.from_pretrained(os.environ['MODEL'])\nAutoModel.from_pretrained(f'out/{x}')",
        HF + "m.save_pretrained('out/best')\nAutoModel.from_pretrained('out/best')",
        HF + "T(TrainingArguments(output_dir='out'))\nAutoModel.from_pretrained('out/checkpoint-500')",
        HF + "NAME = './local'\nAutoModel.from_pretrained(NAME)",
        HF + "import os\nos.environ['HF_HUB_OFFLINE'] = '1'\nAutoModel.from_pretrained('gpt2')",
        HF + "import os\nos.environ['HF_HOME'] = '/data/hub'\nAutoModel.from_pretrained('gpt2')",
        "class Net:\n    def from_pretrained(name): ...\nNet.from_pretrained('gpt2')",
        "from transformers import pipeline\npipeline('ner', model=model, tokenizer=t)",
        "from datasets import load_dataset\nload_dataset(args.data_path)",
        # told not to
        "import tensorflow_datasets as tfds\ntfds.load('mnist', download=False)",
        "from sklearn.datasets import fetch_openml\nfetch_openml('mnist', download_if_missing=False)",
        "import wandb\nMODE = 'disabled'\nwandb.init(mode=MODE)",
        "import timm\ntimm.create_model('vit', pretrained=True, pretrained_cfg_overlay=dict(file='x'))",
        "from torchvision.datasets import MNIST\nMNIST('d', True, None, None, False)",
        # commands that only look like it
        "import os\nos.system('echo pip install numpy')\nos.system('test -d x || git clone https://x/y')",
        "import subprocess\nsubprocess.run(['git', 'clone', '/share/code'])",
    ],
)
def test_what_may_be_none_is_not_told(tmp_path: Path, script: str) -> None:
    assert found_in(tmp_path, script) == []


@pytest.mark.parametrize(
    ("script", "line", "verdict"),
    [
        (WEB + f"if int(os.environ['RANK']) == 0:\n    {GET}", 3, "bad"),
        (WEB + f"if dist.get_rank() != 0:\n    sys.exit()\n{GET}", 4, "bad"),
        (WEB + f"def main():\n    {GET}\nif __name__ == '__main__':\n    main()", 3, "bad"),
        ("import requests, typer\napp = typer.Typer()\n@app.command()\ndef fetch():\n    " + GET + "\napp()", 5, "bad"),
        (WEB + f"class Data(Base):\n    def prepare_data(self):\n        {GET}\nData()", 4, "bad"),
        (WEB + f"try:\n    {GET}\nexcept ImportError:\n    pass\nfinally:\n    pass", 3, "bad"),
        (WEB + f"try:\n    {GET}\nexcept Exception:\n    raise SystemExit(1)", 3, "bad"),
        (ARGS + f"if not a.fetch:\n    {GET}", 6, "bad"),
        (WEB + "requests.get(f'https://data.example.org/{name}')", 2, "bad"),
        (WEB + "requests.get(URL)", 2, "warning"),
        (HF + "NAME = 'gpt2'\nAutoModel.from_pretrained(NAME)", 3, "bad"),
        (HF + "def load(name):\n    AutoModel.from_pretrained(name)\nload('gpt2')", 3, "bad"),
        (HF + "class Net(Base): ...\nNet.from_pretrained('gpt2')", 3, "bad"),
        (HF + "AutoModel.from_pretrained(name)", 2, "warning"),
        ("from torchvision.datasets import MNIST\nMNIST('d', True, None, None, True)", 2, "bad"),
        ("import os\nos.system(f'wget https://data.example.org/{name}')", 2, "bad"),
        ("import subprocess, sys\nsubprocess.run([sys.executable, '-m', 'pip', 'install', 'x'])", 2, "bad"),
    ],
)
def test_what_some_rank_does_is_told(tmp_path: Path, script: str, line: int, verdict: str) -> None:
    assert [(each.line, each.verdict) for each in found_in(tmp_path, script)] == [(line, verdict)]


@pytest.mark.parametrize(("word", "found"), [("fetch", [3]), ("train", [])])
def test_a_function_that_the_command_names(tmp_path: Path, word: str, found: list[int]) -> None:
    script = WEB + f"def fetch():\n    {GET}\ndef train(): ...\nglobals()[sys.argv[1]]()\n"
    assert [each.line for each in found_in(tmp_path, script, f"python train.py {word}")] == found
    script = f"import fire, requests\ndef fetch():\n    {GET}\ndef train(): ...\nfire.Fire()\n"
    assert [each.line for each in found_in(tmp_path, script, f"python train.py {word}")] == found
