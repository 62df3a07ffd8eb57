"""`worldsize bench allreduce`: measures how long an all-reduce of each size takes, and its bandwidth."""

from __future__ import annotations

import argparse
import os
import time

from worldsize.cli.console import parse_count
from worldsize.cli.output import report as report_line
from worldsize.common.named_tuple import Any
from worldsize.common.numbers import size_text
from worldsize.errors import UsageError, WorldsizeError
from worldsize.jobspec.job import Job
from worldsize.jobspec.reading.set_option import apply_overrides
from worldsize.service.computes import choose_compute
from worldsize.service.runs.run import Run
from worldsize.state.records import Status
from worldsize.version import VERSION
from worldsize.wings.bench.allreduce.bandwidth import row_bandwidth
from worldsize.wings.bench.allreduce.presentation import charts as charts
from worldsize.wings.bench.allreduce.presentation import sentences as sentences
from worldsize.wings.bench.allreduce.presentation import tables as tables
from worldsize.wings.bench.allreduce.report import Report, read_report
from worldsize.wings.bench.allreduce.sizes import parse_sizes
from worldsize.wings.bench.result import BenchResult, Measurement
from worldsize.wings.bench.session import Session
from worldsize.wings.bench.worlds import World

_RANKS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks")
_SIZES = "8B:64MB"
_FACTOR, _WARM_UP = 2, 5
_DTYPES = {"mpi": ("float32", "float64"), "": ("float32", "float64", "float16", "bfloat16")}


def add_options(group: Any) -> None:
    group.add_argument("--sizes", metavar="SIZES", help=f"a range or a list, such as 8B:1GB (default: {_SIZES})")
    group.add_argument("--factor", metavar="N", type=parse_count, help=f"from one size to the next ({_FACTOR})")
    group.add_argument(
        "--backend", choices=("nccl", "gloo", "mpi"), help="what reduces (default: nccl on GPUs, else gloo)"
    )
    group.add_argument("--dtype", choices=_DTYPES[""], help="type of the elements (float32)")
    group.add_argument(
        "--iterations", metavar="N", type=parse_count, help="of each size (default: 3 to 1000, depending on their time)"
    )
    group.add_argument("--warmup", metavar="N", type=int, help=f"warm-up all-reduces of each size ({_WARM_UP})")


def measure(options: argparse.Namespace, session: Session) -> BenchResult:
    """Run the all-reduce benchmark, a sweep of sizes, in each world of `session` with more than one rank. Return the
    BenchResult. Raise UsageError for invalid options. Raise WorldsizeError."""
    backend, dtype = options.backend or "", options.dtype or "float32"
    sizes = parse_sizes(options.sizes or _SIZES, _FACTOR if options.factor is None else options.factor)
    warm_ups = _WARM_UP if options.warmup is None else options.warmup
    for name, number in (("--iterations", options.iterations), ("--warmup", warm_ups)):
        if number is not None and number < 1:
            raise UsageError(f"{number} all-reduces measure nothing", name, "1 or more")
    if dtype not in _DTYPES.get(backend, _DTYPES[""]):
        raise UsageError(f"mpi has no {dtype}", "--dtype", "float32 or float64")
    alone = next((world for world in session.worlds if world.ranks == 1), None)
    if alone is not None:
        session = session._replace(worlds=tuple(world for world in session.worlds if world.ranks > 1))
        if not session.worlds:
            raise UsageError(f"{alone} is one rank: there is nothing to reduce", "-w", "such as -w 1x2")
        report_line(f"{alone} is left out: one rank has nothing to reduce")
    command = _command(backend, dtype, sizes, options.iterations, warm_ups)
    empty = BenchResult(
        "allreduce",
        f"all-reduce of {dtype}",
        "GB/s",
        "",
        choose_compute(session.config, session.compute, None),
        time.time(),
        VERSION,
        {
            "sizes": f"{size_text(sizes[0])} to {size_text(sizes[-1])}, {len(sizes)} of them",
            "backend": backend or "nccl on GPUs, else gloo",
            "command": command,
            **session.shown_settings(),
        },
    )
    return session.measure_worlds(empty, lambda world: _job(world, backend, command), _read)


def _command(backend: str, dtype: str, sizes: tuple[int, ...], iterations: int | None, warm_ups: int) -> str:
    program = "allreduce.by_mpi" if backend == "mpi" else "allreduce.by_torch"
    words = ["python", "-m", program, "--sizes", ",".join(map(str, sizes)), "--dtype", dtype]
    words += ["--backend", backend] if backend not in ("", "mpi") else []
    words += ["--iterations", str(iterations)] if iterations else []
    return " ".join([*words, "--warmup", str(warm_ups)])


def _job(world: World, backend: str, command: str) -> Job:
    job = Job(command=command, code=_RANKS, display_name="bench allreduce", source="worldsize bench")
    return apply_overrides(
        job,
        [
            f"distribution.type={'mpi' if backend == 'mpi' else 'pytorch'}",
            f"distribution.process_count_per_instance={world.ranks_per_node}",
            f"resources.instance_count={world.nodes}",
        ],
    )


def _read(run: Run, status: Status, world: World) -> Measurement:
    """Return the measurement of one world of the all-reduce benchmark from the report that the first rank of `run`
    wrote. Its `rate` is the highest bus bandwidth of all sizes. Raise NotFound if there is no report, and
    WorldsizeError if it is invalid or reports another number of ranks."""
    report = read_report(run.paths.outputs)
    if report.ranks != world.ranks:
        raise WorldsizeError(_other_ranks(report, world))
    wrong = f"{report.wrong} elements of the results were wrong" if report.wrong else ""
    return Measurement(
        world,
        rate=max(row_bandwidth(row, world.ranks) for row in report.rows),
        gpus=report.gpus,
        failure=wrong,
        details={**report._asdict(), "rows": [row._asdict() for row in report.rows]},
    )


def _other_ranks(report: Report, world: World) -> str:
    what = f"{report.ranks} of {world.ranks} ranks have taken part"
    if report.backend == "mpi" and report.ranks == 1:
        return f"{what}: mpi4py belongs to another MPI than mpirun: build it with this one's mpicc"
    return what
