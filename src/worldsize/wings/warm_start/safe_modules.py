"""The modules that `preload: auto` imports before ranks are forked.

A test proves each of them safe (tests/warm_start/test_safe_modules.py): importing it reads no variable that differs
between ranks, and leaves no thread, process, open file or shared memory. Lightning is not safe: it reads the rank when
it is imported.
"""

SAFE = frozenset((
    "torch", "torchvision", "numpy", "scipy", "pandas", "sklearn", "transformers", "accelerate", "datasets", "timm",
    "safetensors", "tokenizers", "einops", "PIL", "tqdm", "yaml", "matplotlib", "sympy", "networkx", "requests",
    "psutil",
))  # fmt: skip
"""Top-level packages. Their submodules are safe too."""

UNSAFE = ("transformers.integrations", "transformers.trainer")
"""Modules of safe packages that are not safe, nor are those below them: they import any other packages that happen to
be installed."""

WITH_OPTIMIZERS = "torch._dynamo"
"""The module that each optimizer of torch imports when it is created. It takes half of the import time of torch."""
