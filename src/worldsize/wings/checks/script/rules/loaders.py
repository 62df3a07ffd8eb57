"""Rules for the data loaders of scripts that distribute themselves with DistributedDataParallel or Horovod."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.state.check_rows import BAD, WARNING
from worldsize.wings.checks.script.reading.calls import argument, has_stars, integer, literal
from worldsize.wings.checks.script.reading.index import Unknown
from worldsize.wings.checks.script.reading.program import Program
from worldsize.wings.checks.script.reading.words import names_rank, plain_words, words_behind
from worldsize.wings.checks.script.request import ScriptFinding

_OWN_SPLIT = (
    r"(?i)sampler|iterable|webdataset|^wds$|streaming|shard|subset|split_dataset|array_split|chunk|partition|dali|ffcv"
    r"|auto_dataloader|prepare|^skip$|islice|all_reduce_data|scatter"
)
_TOY = r"(?i)fake|random|synth|dummy|toy|mock"
_HELD_BACK = r"(?i)val|test|eval|dev|infer|predict"
_SEEDS = (
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_everything",
    "set_seed",
    "init_seeds",
    "default_rng",
    "Generator",
)
_DATA = r"(?i)data|loader|split|batch|sample|part"


def loader_findings(program: Program) -> Iterator[ScriptFinding]:
    """Yield the ScriptFindings about missing or wrong DistributedSamplers in the script's data loaders, and about too
    many loader workers."""
    if program.is_plain_data_parallel():
        yield from _both_shuffle(program)
        yield from _without_sampler(program)
        yield from _without_set_epoch(program)
    yield from _many_workers(program)


def _both_shuffle(program: Program) -> Iterator[ScriptFinding]:
    for call in program.flow.calls("DataLoader"):
        sampler = argument(call, "sampler", 3)
        origins = None if sampler is None else program.flow.origins(sampler)
        if literal(argument(call, "shuffle", 2)) is not True or not origins or not program.flow.is_always(call):
            continue
        if all(isinstance(each, ast.Call) and program.index.last_name(each.func) == _SAMPLER for each in origins):
            hint = "leave shuffle out: DistributedSampler shuffles"
            what = "a DataLoader with a sampler and shuffle=True: torch refuses the two together"
            yield program.finding("script.sampler", call, what, BAD, hint)


_SAMPLER = "DistributedSampler"


def _without_sampler(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding for the first DataLoader that shuffles all of the data in every rank, because it has no
    sampler that divides the data."""
    if _splits_itself(program):
        return
    for call in program.flow.calls("DataLoader"):
        if literal(argument(call, "shuffle", 2)) is not True or has_stars(call) or _is_held_back(program, call):
            continue
        data = argument(call, "dataset", 0)
        words = set() if data is None else words_behind(program.flow, data)
        if not words or any(names_rank(word) or re.search(_TOY, word) for word in words):
            continue
        what = f"each of the {program.world_size} ranks would train on all of the data: the DataLoader has no sampler"
        hint = "give it sampler=DistributedSampler(dataset) instead of shuffle=True, and call its set_epoch"
        yield program.finding("script.sampler", call, what, WARNING, hint)
        return


def _splits_itself(program: Program) -> bool:
    """Return whether anything in the script, such as a sampler or a slice by rank, might give each rank a part of the
    data, or its own random order."""
    index = program.index
    words = (*index.named, *index.references, *index.functions, *index.classes, *index.originals, *index.keywords)
    if any(re.search(_OWN_SPLIT, word) for word in words) or any(
        re.search(_OWN_SPLIT, word) for word in index.imported
    ):
        return True
    if any(_about_rank(node.slice) for node in index.parents if isinstance(node, ast.Subscript) and _is_slice(node)):
        return True
    if any(_about_rank(part) for call in index.calls if _is_data(program, call) for part in _deciding_arguments(call)):
        return True
    seeds = [part for call in index.calls_named(*_SEEDS) for part in (*call.args, *call.keywords)]
    return any(names_rank(word) for part in seeds for word in words_behind(program.flow, part))


def _is_data(program: Program, call: ast.Call) -> bool:
    name = program.index.last_name(call.func)
    return name == "range" or bool(re.search(_DATA, name))


def _deciding_arguments(call: ast.Call) -> list[ast.AST]:
    """Return the arguments of a call that creates data or a loader by which the call may give each rank different data:
    all except the batch size, the number of workers and the pinned device."""
    named = [each for each in call.keywords if each.arg not in ("batch_size", "num_workers", "pin_memory_device")]
    return [*call.args, *named]


def _is_slice(node: ast.Subscript) -> bool:
    return any(isinstance(part, ast.Slice) for part in ast.walk(node.slice))


def _about_rank(node: ast.AST) -> bool:
    return any(map(names_rank, plain_words(node)))


def _is_held_back(program: Program, call: ast.Call) -> bool:
    """Return whether the call creates a loader or sampler that is not meant for training, according to the names around
    it, such as `val` or `test`."""
    words = set(plain_words(call))
    for parent, _ in program.index.ancestors(call):
        if isinstance(parent, ast.Assign):
            words |= {word for target in parent.targets for word in plain_words(target)}
        if isinstance(parent, ast.FunctionDef):
            words.add(parent.name)
    return any(re.search(_HELD_BACK, word) for word in words)


def _without_set_epoch(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding if the script has a DistributedSampler and calls no `set_epoch`. The sampler uses the same
    order in every epoch unless it gets the epoch's number."""
    if "set_epoch" in program.index.references or "epoch" in program.index.attributes:
        return
    if any(node.value == "set_epoch" for node in program.index.strings) or not _epochs(program):
        return
    for call in program.flow.calls(_SAMPLER):
        shuffle = argument(call, "shuffle", 3)
        if shuffle is not None and literal(shuffle) is not True:
            continue
        in_loop = any(isinstance(parent, ast.For | ast.While) for parent, _ in program.index.ancestors(call))
        if in_loop or has_stars(call) or argument(call, "seed", 4) is not None or _is_held_back(program, call):
            continue
        what = "every epoch has the same order: nothing calls the sampler's set_epoch"
        hint = "call sampler.set_epoch(epoch) at the beginning of each epoch"
        yield program.finding("script.set_epoch", call, what, WARNING, hint)
        return


def _epochs(program: Program) -> bool:
    """Return whether the script has a loop over more than one epoch, according to the name of the loop's variable."""
    for name, bindings in program.index.named.items():
        if re.fullmatch(r"(i_?|n_?|cur\w*_)?(epoch|ep)(_?(i|idx|num|number))?", name):
            loops = [each.of for each in bindings if isinstance(each, Unknown)]
            if any(_is_long_range(program, loop) for loop in loops):
                return True
    return False


def _is_long_range(program: Program, loop: ast.expr) -> bool:
    if isinstance(loop, ast.Call) and program.index.last_name(loop.func) in ("tqdm", "trange") and loop.args:
        loop = loop.args[0] if isinstance(loop.args[0], ast.Call) else loop
    if not isinstance(loop, ast.Call) or program.index.last_name(loop.func) not in ("range", "trange"):
        return False
    ends = program.flow.origins(loop.args[-1]) if loop.args else None
    return not (ends and any(integer(end) in (0, 1) for end in ends))


def workers_of(program: Program) -> int | None:
    """Return the largest number of loader workers of any DataLoader in the script; None if there is no DataLoader, or
    if the number of one is not known."""
    found: list[int] = []
    for call in program.flow.calls("DataLoader"):
        node = argument(call, "num_workers", 5)
        if node is None and has_stars(call):
            return None
        origins = [ast.Constant(0)] if node is None else program.flow.origins(node)
        counts = [integer(origin) for origin in origins or [None]]
        if None in counts:
            return None
        found += [count for count in counts if count is not None]
    return max(found, default=None)


def _many_workers(program: Program) -> Iterator[ScriptFinding]:
    cores, ranks, workers = program.request.cores_per_node, program.ranks_per_node, workers_of(program)
    if not cores or not workers or ranks * workers <= 2 * cores:
        return
    calls = [call for call in program.flow.calls("DataLoader") if argument(call, "num_workers", 5) is not None]
    what = f"{ranks} rank{'s' if ranks > 1 else ''} with {workers} loader workers each on {cores} cores"
    hint = f"give each loader num_workers={max(1, cores // ranks)}, or ask for more cores"
    yield program.finding("script.workers", calls[0], what, WARNING, hint)
