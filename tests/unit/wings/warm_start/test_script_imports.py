"""What of a script's imports is imported before it begins."""

from __future__ import annotations

import pytest

from worldsize.wings.warm_start.script_imports import preloadable

DYNAMO = "torch._dynamo"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("import torch", ("torch",)),
        ("import os, sys\nimport numpy as np\nfrom torch import nn\n", ("numpy", "torch")),
        (
            '"""What it is."""\nfrom __future__ import annotations\nimport torch.nn.functional as F',
            ("torch.nn.functional",),
        ),
        ("import torch\nimport torch.optim as optim", ("torch", "torch.optim", DYNAMO)),
        ("import torch\ndef f(m): return torch.optim.SGD(m)", ("torch", DYNAMO)),
        ("from torch.optim import Adam", ("torch.optim", DYNAMO)),
        ("from torch import optim", ("torch", DYNAMO)),
        ("import os\nos.environ['OMP_NUM_THREADS'] = '4'\nimport torch", ()),
        ("import numpy\nimport model\nimport torch", ("numpy",)),
        ("from . import model\nimport torch", ()),
        ("import lightning\nimport torch", ()),
        ("import wandb, torch", ()),
        ("try:\n    import torch\nexcept ImportError:\n    pass", ()),
        ("if True:\n    import torch", ()),
        ("import os", ()),
        ("", ()),
        ("print(1)\nimport torch", ()),
        ("import torch, torch", ("torch",)),
        ("import scipy\nimport optim", ("scipy",)),
        ("import os\nfrom torch import optim\nprint(os.environ['RANK'], os.environ.get('A'))", ("torch", DYNAMO)),
        ("import os\nfrom torch import optim\nos.environ['TORCHDYNAMO_DISABLE'] = '1'", ("torch",)),
        ("import os\nfrom torch import optim\nos.environ[name] = '1'", ("torch",)),
        ("import os\nfrom torch import optim\nos.environ['MASTER_ADDR'] = '::1'", ("torch", DYNAMO)),
        ("import os\nfrom torch import optim\nos.environ.setdefault('TORCH_LOGS', 'dynamo')", ("torch",)),
        ("from os import environ\nfrom torch import optim\ndef f():\n    del environ['TORCH_LOGS']", ("torch",)),
        ("import os\nfrom torch import optim\nos.putenv('A', 'b')", ("torch",)),
        ("import torch\nfrom transformers.trainer import Trainer\nimport numpy", ("torch",)),
        ("import transformers.integrations.deepspeed", ()),
        ("import transformers.trainer_utils", ("transformers.trainer_utils",)),
        ("from transformers import Trainer", ("transformers",)),
    ],
)
def test_the_imports_at_its_top(source: str, modules: tuple[str, ...]) -> None:
    assert preloadable(source) == modules


@pytest.mark.parametrize("source", ["import", "import torch\n  x", "\0"])
def test_what_is_no_python(source: str) -> None:
    with pytest.raises((SyntaxError, ValueError)):
        preloadable(source)
