"""A script that was read, with the world in which it would run."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable, Iterable

from worldsize.wings.checks.script.reading.calls import text
from worldsize.wings.checks.script.reading.command_line import ScriptCommand, script_command
from worldsize.wings.checks.script.reading.flow import Flow
from worldsize.wings.checks.script.reading.index import Index
from worldsize.wings.checks.script.reading.sources import MOST_SECONDS, Bounds, Sources, read_sources
from worldsize.wings.checks.script.request import ScriptFinding, ScriptRequest

_ALONE = """
    absl albumentations attr attrs bitsandbytes bs4 click cloudpickle coco_eval colorama
    configargparse cv2 datasets dateutil diffusers dill dotenv easydict einops evaluate fire flax
    gym gymnasium h5py imageio imgaug ipdb jax jaxlib joblib keras kornia librosa lmdb loguru lpips
    matplotlib mlflow natsort neptune networkx nltk numba numpy omegaconf onnx onnxruntime optax
    orjson packaging pandas peft PIL plotly psutil pyarrow pycocotools pydantic pynvml regex
    requests rich sacrebleu safetensors scipy seaborn segmentation_models_pytorch sentencepiece
    simplejson six skimage sklearn soundfile spacy statsmodels tabulate tensorboard tensorboardX
    tensorflow tensorflow_datasets tensorflow_hub termcolor tf_keras thop tiktoken timm tokenizers
    toml tomli torch torch_geometric torchaudio torchinfo torchmetrics torchsummary torchtext
    torchvision tqdm transformers typer typing_extensions ujson visdom wandb yacs yaml
"""
ALONE = frozenset(_ALONE.split())
"""Packages that do not distribute a training that is written out in the script. This is not known of any other
package."""

_BRANDS = {
    "torch.distributed": ("torch.distributed", "torch.nn.parallel.DistributedDataParallel"),
    "horovod": ("horovod",),
    "deepspeed": ("deepspeed", "colossalai", "megatron"),
    "lightning": ("pytorch_lightning", "lightning", "lightning_fabric"),
    "accelerate": ("accelerate",),
    "transformers": ("transformers.Trainer", "transformers.Seq2SeqTrainer", "transformers.trainer", "trl"),
    "mpi4py": ("mpi4py",),
    "ray": ("ray",),
    "spark": ("horovod.spark", "horovod.ray", "horovod.runner", "pyspark"),
}


class Program:
    """A script that was read, without executing it. `ranks_per_node` and `world_size` are the numbers that the
    processes of the script would see, including the processes that torchrun starts. `nodes` is 1 if all nodes are
    virtual."""

    def __init__(self, request: ScriptRequest, command: ScriptCommand, sources: Sources, index: Index) -> None:
        self.request, self.command, self.sources, self.index = request, command, sources, index
        self.flow = Flow(self.index, command.words)
        started = processes_of_torchrun(command)
        self.ranks_per_node = request.ranks_per_node * (started or 1)
        self.world_size = request.world_size * (started or 1)
        self.nodes = 1 if request.virtual else request.nodes
        self.brands = {name for name, modules in _BRANDS.items() if self.imports(modules)}

    def imports(self, names: Iterable[str]) -> bool:
        """Return whether the script imports one of the modules in `names`, or a part of one."""
        return any(found == name or found.startswith(name + ".") for name in names for found in self.index.imported)

    def finding(self, id: str, node: ast.AST, what: str, verdict: str, hint: str) -> ScriptFinding:
        """Return a ScriptFinding with the file and line of `node`, which is a node of one of the script's syntax
        trees."""
        return ScriptFinding(id, self.index.file_of(node), getattr(node, "lineno", 0), what, verdict, hint)

    def is_plain_data_parallel(self) -> bool:
        """Return whether the script itself shares the work among several ranks by DistributedDataParallel or Horovod,
        and uses no other means that is known here."""
        if self.world_size < 2 or self.sources.foreign - ALONE - {"horovod"}:
            return False
        if self.brands - {"torch.distributed", "horovod"} or not self.flow.calls("backward"):
            return False
        wrapped = self.flow.calls("DistributedDataParallel") and self.flow.calls("init_process_group")
        return bool(wrapped or (self.brands == {"horovod"} and self.flow.calls("DistributedOptimizer")))

    def environment_reads(self) -> list[str | None]:
        """Return the names of the environment variables that the script reads; None for a name that is not a
        literal."""
        found: list[str | None] = []
        for place in (*self.index.references["environ"], *self.index.references["getenv"]):
            found += self._read_names(place)
        return found

    def _read_names(self, place: ast.expr) -> list[str | None]:
        parent = self.index.parents.get(place)
        if isinstance(parent, ast.Subscript):
            return [text(parent.slice)] if isinstance(parent.ctx, ast.Load) else []
        if isinstance(parent, ast.Compare):
            return [text(parent.left)]
        call = self.index.parents.get(parent) if isinstance(parent, ast.Attribute) else parent
        if not isinstance(call, ast.Call):
            return [None]
        if isinstance(parent, ast.Attribute) and parent.attr in ("setdefault", "update"):
            return []
        return [text(call.args[0]) if call.args else None]


def processes_of_torchrun(command: ScriptCommand) -> int | None:
    """Return the number of processes that the torchrun in the script's command starts on each node; None if there is no
    torchrun, or if it determines the number itself."""
    if command.starter != "torchrun":
        return None
    value = command.options.get("nproc_per_node", "1")
    return int(value) if value.isdigit() and 0 < int(value[:6]) == int(value) else None


def read_program(request: ScriptRequest, clock: Callable[[], float]) -> Program | None:
    """Read the Python script that the command of the request starts, and return it as a Program; None if there is none
    that can be read completely within the bounds."""
    try:
        return _read_program(request, clock)
    except Exception:  # noqa: BLE001  a check continues without the script if its source is strange
        return None


def _read_program(request: ScriptRequest, clock: Callable[[], float]) -> Program | None:
    began = clock()
    command = script_command(request.argv)
    if command is None or not request.code_dir or not os.path.isdir(request.code_dir):
        return None
    sources = read_sources(request.code_dir, command, clock)
    if not sources.complete:
        return None
    index = Index(sources.modules, lambda: clock() > began + MOST_SECONDS)
    kind, launcher = (request.distribution or "none").lower(), (request.launcher or "").lower()
    request = request._replace(distribution=kind, launcher=launcher)
    return Program(request, command, sources, index) if index.complete else None


def read_partly(
    request: ScriptRequest, command: ScriptCommand, clock: Callable[[], float], bounds: Bounds
) -> Program | None:
    """Read a script of which some files may be missing, because they cannot be read or are too many, and return it as a
    Program. For this reason, code that is not found may still exist. None if the script is not found, or if the time
    limit is reached."""
    try:
        end = clock() + bounds.seconds
        sources = read_sources(request.code_dir, command, clock, bounds) if os.path.isdir(request.code_dir) else None
        if sources is None or not sources.modules:
            return None
        index = Index(sources.modules, lambda: clock() > end)
        return Program(request, command, sources, index) if index.complete else None
    except Exception:  # noqa: BLE001  see read_program
        return None
