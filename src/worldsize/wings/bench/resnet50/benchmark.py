"""`worldsize bench resnet50`: measures the images per second of the standard network, trained by all ranks of each
world."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.common.named_tuple import Any
from worldsize.errors import UsageError
from worldsize.jobspec.config.compute_types import LOCAL
from worldsize.jobspec.distribution import DISTRIBUTIONS, Distribution
from worldsize.jobspec.job import AssetTypes, Input, Job, Resources, command_text
from worldsize.jobspec.paths import absolute_path, is_remote
from worldsize.service.computes import choose_compute
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.version import VERSION
from worldsize.wings.bench.resnet50.reading import read_measurement
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.scaling.presentation import charts as charts
from worldsize.wings.bench.scaling.presentation import sentences as sentences
from worldsize.wings.bench.scaling.presentation import tables as tables
from worldsize.wings.bench.session import Session
from worldsize.wings.bench.worlds import World

MODULES = {"torch": "torch_ddp", "horovod": "horovod_torch", "tensorflow": "tensorflow_mirrored"}
NAMES = {"torch": "PyTorch DDP", "horovod": "Horovod with PyTorch", "tensorflow": "TensorFlow MultiWorkerMirrored"}
PRECISIONS = ("fp32", "bf16", "fp16")
NO_DIRECTORY = ("synthetic", "generated")
STANDARD_SIZE = 224
STANDARD_WIDTH = 64
_SMALLEST = 32
_MOST = 1_000_000


def add_options(group: Any) -> None:
    group.add_argument("--framework", choices=tuple(MODULES), default="torch", help="(default: torch)")
    group.add_argument(
        "--data",
        metavar="DATA",
        default="synthetic",
        help="synthetic: one batch, on the device; generated: JPEG files made on each node; or DIR/CLASS/*.jpg",
    )
    group.add_argument(
        "--precision", choices=PRECISIONS, default="fp32", help="(default: fp32, TF32 on GPUs that have it)"
    )
    group.add_argument("--batch", type=int, metavar="N", help="images per step and rank (default: 64 on GPUs, or 8)")
    group.add_argument("--steps", type=int, metavar="N", help="measured steps (default: 100 on GPUs, or 10)")
    group.add_argument("--warmup", type=int, metavar="N", help="warm-up: steps (20 on GPUs, or 2), all-reduces (5)")
    group.add_argument("--workers", type=int, metavar="N", help="processes per rank that decode images (default: 4)")
    group.add_argument(
        "--image-size", type=int, metavar="N", help="image size other than 224 × 224: no standard figure"
    )
    group.add_argument(
        "--width", type=int, metavar="N", help="channels of the first layer, other than 64: no standard figure"
    )


def measure(options: argparse.Namespace, session: Session) -> BenchResult:
    """Run the ResNet-50 benchmark: train the network in each world of `session`, and return the BenchResult with the
    images per second. Raise UsageError for invalid options. Raise WorldsizeError."""
    _check_options(options)
    if any(setting.startswith("virtual_gpus=") for setting in session.settings):
        hint = "worldsize rehearse shows whether a job runs on GPUs"
        raise UsageError("virtual GPUs have no speed", "--set virtual_gpus", hint)

    def make(world: World) -> Job:
        job = job_of(options, world, session.cwd)
        return job._replace(argv=(*job.argv, "--share", share)) if (share := _share(world, session, local)) else job

    def read(run: Run, status: Status, world: World) -> Measurement:
        return read_measurement(os.path.join(run.paths.outputs, "bench.json"), world)

    compute = choose_compute(session.config, session.compute, None)
    local = session.config.computes[compute].type == LOCAL
    empty = BenchResult(
        "resnet50", title(options), "images/s", "weak", compute, time.time(), VERSION, settings(options, session)
    )
    return session.measure_worlds(empty, make, read)


def title(options: argparse.Namespace) -> str:
    """Return the title of the ResNet-50 benchmark's result. It names every setting that makes the network differ from
    the published one."""
    what = f"ResNet-50, {NAMES[options.framework]}, {_data_words(options.data)}, {options.precision}"
    tiny = []
    if options.image_size not in (None, STANDARD_SIZE):
        tiny.append(f"images of {options.image_size} × {options.image_size}")
    if options.width not in (None, STANDARD_WIDTH):
        tiny.append(f"{options.width} channels at first")
    if not tiny:
        return what
    batch = [f"batch {options.batch}"] if options.batch else []
    return f"{what}; {', '.join([*tiny, *batch])}: tiny settings, no ResNet-50 figure"


def settings(options: argparse.Namespace, session: Session) -> dict[str, str]:
    """Return the settings of the ResNet-50 benchmark, by name, that distinguish one measurement from another."""
    found = {
        "framework": options.framework,
        "data": options.data,
        "precision": options.precision,
        "tf32": _tf32_words(options),
    }
    for name in ("batch", "steps", "warmup", "workers", "image_size", "width"):
        value = getattr(options, name)
        found[name.replace("_", " ")] = "" if value is None else str(value)
    return {name: value for name, value in {**found, **session.shown_settings()}.items() if value}


def _tf32_words(options: argparse.Namespace) -> str:
    """Return the setting "tf32" of the ResNet-50 benchmark in words, before the ranks have seen a GPU; "" unless the
    precision is fp32. TensorFlow enables TF32 for all products of matrices."""
    if options.precision != "fp32":
        return ""
    where = "" if options.framework == "tensorflow" else " for convolutions"
    return f"on{where}, on GPUs that have it"


def job_of(options: argparse.Namespace, world: World, cwd: str) -> Job:
    """Return the job that trains ResNet-50 in one world with the given command-line options. Its code is in the
    directory `ranks` next to this file."""
    inputs: dict[str, Any] = {}
    data = options.data
    if data not in NO_DIRECTORY:
        path = data if is_remote(data) else absolute_path(data, cwd)
        inputs["data"] = Input(AssetTypes.URI_FOLDER, path)
        data = "${{inputs.data}}"
    words = ["python", "-m", f"resnet50.{MODULES[options.framework]}", "--data", data, "--precision", options.precision]
    for name in ("batch", "steps", "warmup", "workers", "image_size", "width"):
        value = getattr(options, name)
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    return Job(
        command=command_text(tuple(words)),
        argv=tuple(words),
        code=os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks"),
        display_name="bench-resnet50",
        distribution=_distribution(options.framework, world),
        resources=Resources(world.nodes),
        inputs=inputs,
        environment_variables={"TF_CPP_MIN_LOG_LEVEL": "2"} if options.framework == "tensorflow" else {},
        source="bench resnet50",
    )


def _share(world: World, session: Session, local: bool) -> str:
    """Return "N/M": the number of ranks on a machine in `world`, and that in the largest world of the benchmark. On
    CPUs each rank must have the same number of threads in every world, just as each has one GPU; otherwise the curve
    would show how ranks share cores. "" if the user sets the threads."""
    if any(setting.startswith(("threads=", "environment_variables.OMP_NUM_THREADS=")) for setting in session.settings):
        return ""
    counts = [each.ranks if local else each.ranks_per_node for each in (*session.worlds, world)]
    return f"{counts[-1]}/{max(counts)}"


def _distribution(framework: str, world: World) -> Distribution:
    kind: Any = DISTRIBUTIONS["pytorch" if framework == "torch" else framework]
    is_tensorflow = framework == "tensorflow"
    made: Distribution = kind(worker_count=world.ranks) if is_tensorflow else kind(world.ranks_per_node)
    return made


def _data_words(data: str) -> str:
    if data == "synthetic":
        return "synthetic data"
    return "generated JPEG files" if data == "generated" else "an image folder"


def _check_options(options: argparse.Namespace) -> None:
    """Check the command-line options of the ResNet-50 benchmark. Raise UsageError for numbers that are out of range,
    for a network that the framework does not have, and for an unknown kind of data."""
    least = {"batch": 1, "steps": 1, "warmup": 0, "workers": 0, "image_size": _SMALLEST, "width": 1}
    for name, smallest in least.items():
        value = getattr(options, name)
        if value is not None and not smallest <= value <= _MOST:
            raise UsageError(f"{value} is not from {smallest} to {_MOST}", f"--{name.replace('_', '-')}")
    if options.framework == "tensorflow" and options.width not in (None, STANDARD_WIDTH):
        raise UsageError("the network of Keras has one width", "--width", "leave it out, or --framework torch")
    if not options.data or ("," in options.data and not os.path.exists(options.data)):
        hint = "synthetic and real data are two measurements: give one, then the other with --against"
        raise UsageError(f"{options.data!r:.100} is not a kind of data", "--data", hint)
