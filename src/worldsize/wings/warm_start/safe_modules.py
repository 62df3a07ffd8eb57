"""The modules that `preload: auto` imports before ranks are forked.

Each is safe by a test (tests/warm_start/test_safe_modules.py): importing it reads no variable that differs between
ranks, and leaves no thread, process, open file or shared memory. Lightning is not: it reads the rank as it is imported.
"""

SAFE = frozenset((
    "torch", "torchvision", "numpy", "scipy", "pandas", "sklearn", "transformers", "accelerate", "datasets", "timm",
    "safetensors", "tokenizers", "einops", "PIL", "tqdm", "yaml", "matplotlib", "sympy", "networkx", "requests",
    "psutil",
))  # fmt: skip
"""Top-level packages; their own modules are safe with them."""

UNSAFE = ("transformers.integrations", "transformers.trainer")
"""Modules of safe packages that are not safe, and those below them: they import what else happens to be installed."""

WITH_OPTIMIZERS = "torch._dynamo"
"""What each optimizer of torch imports as it is made: half of what torch takes."""
