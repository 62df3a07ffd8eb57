"""A script that imports the standard library alone is told from others without being parsed."""

import os

import pytest

from worldsize.service.submission.plain_script import plain_script

PLAIN = [
    "pass",
    "",
    "import os\nfrom collections import abc, deque  # these\nfrom os.path import (\n    join,\n)\n",
    "import os.path\n",
    "def f():\n    import json\n",
]
OTHERS = [
    "import torch",
    "import os, torch",
    "import os,torch",
    "import os.path,torch",
    "import os as o, torch",
    "import os; import torch",
    "from os import path; import torch",
    "import os as o; import torch",
    "if True: import torch",
    "from torch import nn",
    "import torch.nn as nn",
    "from . import model",
    "from .model import Net",
    "import os, \\\n  torch",
    "from \\\n  torch import nn",
    "x = 1; import torch",
    '__import__("torch")',
    "import importlib\nimportlib.import_module('torch')",
    '"""What is important."""',
    "import",
    "import\ttorch",
    "import os\x0cimport torch",
    "import own",
    "import queue",
    "import " + "a" * 70000,
]


@pytest.fixture
def code(tmp_path):
    (tmp_path / "own.py").write_text("import torch")
    (tmp_path / "queue").mkdir()
    return tmp_path


@pytest.mark.parametrize("source", PLAIN)
def test_a_script_of_the_standard_library(code, source):
    (code / "train.py").write_text(source)
    assert plain_script(str(code), ("python3.11", "train.py", "--lr", "1"))


@pytest.mark.parametrize("source", OTHERS)
def test_a_script_that_may_be_more(code, source):
    (code / "train.py").write_text(source)
    assert not plain_script(str(code), ("python", "train.py"))


@pytest.mark.parametrize("argv", [(), ("python",), ("bash", "train.py"), ("python", "-m", "train"), ("train.py",)])
def test_another_command_is_not_looked_at(code, argv):
    (code / "train.py").write_text("pass")
    assert not plain_script(str(code), argv)


def test_a_line_for_a_shell_that_is_words_alone(code):
    (code / "train.py").write_text("import os")
    assert plain_script(str(code), ("bash", "-c", "python train.py --lr 0.1 --name=a/b"))
    others = ("cd x; python train.py", "python train.py | tee log", "X=1 python train.py", "python 'train.py'", "")
    for line in (*others, "python own.py", "python train.py > $LOG", "python train.py\npython own.py", "python t*.py"):
        assert not plain_script(str(code), ("bash", "-c", line)), line
    assert not plain_script(str(code), ("bash", "-c"))


def test_what_cannot_be_read(code):
    os.mkfifo(code / "pipe.py")
    (code / "bytes.py").write_bytes(b"\xff\xfe")
    for name in ("pipe.py", "bytes.py", "none.py", "own.py/x.py", "nul\0.py", "../../etc/x.py"):
        assert not plain_script(str(code), ("python", name))
    assert not plain_script(str(code / "none"), ("python", "own.py"))
