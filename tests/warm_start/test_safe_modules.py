"""What `preload: auto` imports is safe, by the packages themselves: importing each reads no variable that differs
between the ranks of a node, leaves nothing that forks would share or lose, and changes nothing of what other modules
find that the script imports in between. What is refused, and why, is seen by the same means.

Reads are those of Python (os.environ) and of C, C++ and Rust (getenv); the few programs that walk through `environ`
themselves would not be seen. Who goes through all variables reads none that the process has not: it is started without
those of single ranks. But he may keep a copy, so each is known by his file.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from driver import SOURCE

from worldsize.plan.rank_variables import VARIABLES, variable_names
from worldsize.wings.warm_start.safe_modules import SAFE, WITH_OPTIMIZERS

HERE = Path(__file__).parent
ROOT = Path(SOURCE).parent
PYTHON = ROOT / ".venv-conventions" / "bin" / "python"
PACKAGES = ROOT / ".venv-preloaded"
pytestmark = [
    pytest.mark.timeout(600),
    pytest.mark.training,
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-conventions: make setup"),
    pytest.mark.skipif(not PACKAGES.exists(), reason="no .venv-preloaded: make setup"),
    pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc to compile with"),
]

OF_SINGLE_RANKS = {*variable_names("rank", "local rank", "role", "own"), "CUDA_VISIBLE_DEVICES"}
"""What can differ between the ranks of one node. Others, such as their number, all of them have with one value, and so
has the process that they are forked from: MKL reads OMPI_COMM_WORLD_LOCAL_SIZE as it is loaded."""

PARTS = (
    "torch.distributed", "torch.distributed.fsdp", "torch.distributed.checkpoint", "torch.distributed.elastic",
    "torch.distributed.elastic.multiprocessing.errors", "torch.distributed.run", "torch.multiprocessing",
    "torch.nn.functional", "torch.nn.parallel", "torch.optim.lr_scheduler", "torch.utils.checkpoint",
    "torch.utils.data", "torch.utils.tensorboard", "torchvision.datasets", "torchvision.models",
    "torchvision.transforms.v2", "scipy.sparse", "matplotlib.pyplot", "safetensors.torch", "PIL.Image",
)  # fmt: skip
"""Modules that scripts often import of the packages of SAFE."""

MODULES = (*sorted(SAFE), *PARTS, WITH_OPTIMIZERS)
CASES = {"all": MODULES, **{name: (name,) for name in MODULES}}

ALLOWED = {
    "walked by": {  # each picks the variables that begin with its own name
        "tqdm/utils.py", "networkx/utils/backends.py", "fsspec/config.py",
    },
    "written": {
        "TORCHINDUCTOR_CACHE_DIR",  # torch._dynamo, by TMPDIR and the user: the same in all ranks
        "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",  # scikit-learn, with one value
    },
    "replaced": {
        "inspect.getfile",  # torch.package: knows modules of packages of torch, too
        "tempfile.tempdir",  # what tempfile keeps once it was asked, by TMPDIR
    },
    "finders": {  # each finds modules of its own package alone, or none
        "transformers.utils.import_utils", "absl.flags._flagvalues",
    },
}  # fmt: skip
"""What a module may do of each kind, and why. Nothing is allowed of any other kind."""


class Imports:
    """Imports modules in a process of the environment that has them, with the variables that ranks have in common."""

    def __init__(self, folder: Path) -> None:
        self._libraries = folder
        site = next(PACKAGES.glob("lib/python*/site-packages"))
        common = {each.name for each in VARIABLES} - OF_SINGLE_RANKS
        self._environ = {
            **{name: "2" for name in common if not name.startswith("WORLDSIZE_")},
            "MASTER_ADDR": "127.0.0.1",
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": "%s:%s" % (SOURCE, site),
            "LD_PRELOAD": self._compiled("recorded_getenv.c", "recorded_getenv.so"),
            "LD_LIBRARY_PATH": str(folder),
        }
        for name in ("libc10_cuda.so", "libtorch_cuda.so"):
            self._compiled("torch_of_gpus.c", name)
        (runtime,) = site.glob("torchvision.libs/libcudart.*.so.*")
        (folder / ("libcudart.so" + runtime.suffix)).symlink_to(runtime)

    def _compiled(self, source: str, name: str) -> str:
        library = str(self._libraries / name)
        subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, HERE / source], check=True)
        return library

    def __call__(self, modules: Sequence[str]) -> dict[str, Any]:
        """By module, what the program tells."""
        command = [str(PYTHON), str(HERE / "imported_modules.py"), *modules]
        done = subprocess.run(command, env=self._environ, cwd=self._libraries, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture(scope="module")
def imports(tmp_path_factory: pytest.TempPathFactory) -> Imports:
    return Imports(tmp_path_factory.mktemp("libraries"))


def objections(facts: dict[str, Any]) -> dict[str, Any]:
    """What of this speaks against a module, by kind."""
    found = dict(facts)
    found["read"] = sorted(OF_SINGLE_RANKS.intersection(facts["read"]))
    found["walked by"] = [each.partition("site-packages/")[2] or each for each in facts["walked by"]]
    for kind, allowed in ALLOWED.items():
        found[kind] = [each for each in found[kind] if each not in allowed]
    return {kind: what for kind, what in found.items() if what}


@pytest.mark.exhaustive(unless=["all"])
@pytest.mark.parametrize("case", CASES)
def test_nothing_speaks_against_a_safe_module(imports: Imports, case: str) -> None:
    found = {name: objections(facts) for name, facts in imports(CASES[case]).items()}
    assert found == {name: {} for name in CASES[case]}


def test_lightning_reads_the_rank(imports: Imports) -> None:
    found = objections(imports(["lightning"])["lightning"])
    assert {"LOCAL_RANK", "RANK"} <= set(found["read"])
