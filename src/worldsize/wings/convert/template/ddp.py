"""Helpers that run one training on all processes that a launcher (torchrun, worldsize run) has started. With a single
process, they change nothing.

    share(loader)                  the loader, with this rank's part of each of its batches
    average_gradients(optimizer)   the optimizer, whose weights get the mean of the ranks' gradients
    mean(value), total(value)      a mean or a sum over the whole batch, from all ranks; all must call it
    main_only(function)            the function on rank 0; on the other ranks, calling it does nothing
    main_first(make)               the result of `make()`; one rank of each node calls it first (a download)
    as_on_main(value)              rank 0's value, on all ranks
    open_file(path, mode)          `open`; only rank 0 writes, and all ranks read rank 0's files
    wait_for_all()                 returns when every rank has called it

A rank computes the gradients of its part of each batch, and the ranks' mean is that of the whole batch. So the training
is the same as that of a single process. A batch that cannot be divided by the number of ranks goes whole to each rank.
During a loop over a shared loader, each rank draws torch's random numbers (dropout, noise) for itself. After the loop,
all ranks draw those of rank 0 again, so that they evaluate and decide alike. Only rank 0 prints.

This file was written by `worldsize convert` and needs torch 2.1. You may change it as you like.
"""

from __future__ import annotations

import atexit
import builtins
import multiprocessing
import os
import random
import sys
import types
import warnings
from collections import deque
from itertools import islice

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset

_IS_RANK = multiprocessing.current_process().name == "MainProcess"  # a loader's worker is no rank
RANK = int(os.environ.get("RANK", 0)) if _IS_RANK else 0
LOCAL_RANK = int(os.environ.get("LOCAL_RANK", 0)) if _IS_RANK else 0
WORLD_SIZE = int(os.environ.get("WORLD_SIZE", 1)) if _IS_RANK else 1
MESSAGE = 25_000_000  # bytes of gradients per message
DRAWN = 1000  # batches whose indices are sent together


def _start():
    """Join the process group, unless that has already happened, and continue with rank 0's random numbers. Switch off
    printing and W&B on other ranks."""
    if RANK > 0:
        os.environ["WANDB_MODE"] = "disabled"
        builtins.print = lambda *values, **options: None
    if WORLD_SIZE > 1:
        if torch.cuda.is_available():
            torch.cuda.set_device(LOCAL_RANK % torch.cuda.device_count())
        if not dist.is_initialized():
            dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
            atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())
        _agree_on_random_numbers()


def wait_for_all():
    if WORLD_SIZE > 1:
        dist.barrier()


def as_on_main(value):
    values = [value]
    if WORLD_SIZE > 1:
        dist.broadcast_object_list(values)
    return values[0]


def _agree_on_random_numbers():
    """Set the state of all random generators to that of rank 0."""
    places = [(torch.get_rng_state, torch.set_rng_state), (random.getstate, random.setstate)]
    if torch.cuda.is_available():
        places.append((torch.cuda.get_rng_state, torch.cuda.set_rng_state))
    if "numpy" in sys.modules:
        places.append((sys.modules["numpy"].random.get_state, sys.modules["numpy"].random.set_state))
    for get_state, set_state in places:
        set_state(as_on_main(get_state()))


def share(loader):
    """Return a loader that gives each rank its part of every batch; with gradients switched off, whole batches."""
    if WORLD_SIZE == 1 or isinstance(loader, SharedLoader):
        return loader
    if not isinstance(loader, DataLoader) or type(loader).__iter__ is not DataLoader.__iter__:
        raise TypeError(f"only a DataLoader can be divided, not a {type(loader).__name__}: make a DataLoader of it")
    if not hasattr(loader, "shared_loader"):
        loader.shared_loader = SharedLoader(loader)
    return loader.shared_loader


class SharedLoader:
    def __init__(self, loader):
        if isinstance(loader.dataset, IterableDataset) or loader.batch_sampler is None:
            raise TypeError("no indices to divide: the loader has an IterableDataset, or no batch_size")
        names = (
            "num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn", "multiprocessing_context",
            "generator", "prefetch_factor", "persistent_workers", "pin_memory_device",
        )  # fmt: skip
        self._loader = loader
        self._batches = _Parts(loader.batch_sampler)
        options = {name: getattr(loader, name) for name in names}
        self._parts = DataLoader(loader.dataset, batch_sampler=self._batches, **options)

    def __len__(self):
        return len(self._loader)

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def __iter__(self):
        if not torch.is_grad_enabled():
            return self._whole_batches(iter(self._loader))
        for reducer in _reducers:
            reducer.begin()
        return self._own_parts(iter(self._parts))

    def _whole_batches(self, batches):
        before, _now.is_part = _now.is_part, False
        try:
            yield from batches
        finally:
            _now.is_part = before

    def _own_parts(self, parts):
        if RANK > 0:  # only torch: other generators may decide what all ranks do
            torch.manual_seed(torch.randint(2**40, ()).item() + RANK)
        try:
            for batch in parts:
                _now.is_part = self._batches.are_parts.popleft()
                yield batch
        except GeneratorExit:  # all ranks have left the loop
            pass
        if dist.is_initialized():
            _agree_on_random_numbers()
            for reducer in _reducers:
                _broadcast(reducer.buffers())


class _Parts:
    """The batches of indices that rank 0's sampler draws, reduced to this rank's part of each."""

    def __init__(self, batches):
        self._batches = batches
        self.are_parts = deque()

    def __iter__(self):
        self.are_parts.clear()
        batches = iter(self._batches) if RANK == 0 else None
        drawn, is_first = range(DRAWN), True
        while len(drawn) == DRAWN:
            drawn = as_on_main(list(map(list, islice(batches, DRAWN))) if RANK == 0 else None)
            for indices in drawn:
                each, rest = divmod(len(indices), WORLD_SIZE)
                if rest and is_first and RANK == 0:
                    warnings.warn(
                        f"{WORLD_SIZE} ranks, batches of {len(indices)}: each rank does all of the work", stacklevel=2
                    )
                is_first = False
                self.are_parts.append(not rest)
                yield indices if rest else indices[RANK * each : (RANK + 1) * each]


_reducers = []
_now = types.SimpleNamespace(is_part=False)  # whether each rank works on its part of a batch


def average_gradients(optimizer, *models, is_sum=False):
    """Return the optimizer, after a change by which each backward adds the mean of the ranks' gradients to the `.grad`
    of its weights. With `is_sum`, for losses that are sums over samples, it adds their sum. The weights start with rank
    0's values. After each pass, the buffers of the models, such as BatchNorm's, get rank 0's values."""
    if WORLD_SIZE > 1:
        _reducers.append(_Reducer(optimizer, models, is_sum))
        _reducers[-1].begin()
    return optimizer


class _Reducer:
    """A reducer that sends gradients while a backward still runs, in the same order on all ranks. A weight that the
    backward of one rank has not reached counts as zero there, if that of another rank has reached it."""

    def __init__(self, optimizer, models, is_sum):
        self._optimizer, self._models, self._is_sum = optimizer, models, is_sum
        self._place, self._buckets = {}, []
        self._is_running = False
        optimizer.register_step_pre_hook(self._check)

    def begin(self):
        """Register the optimizer's weights that are new for the exchange of gradients. If there are any, copy rank 0's
        values of all weights and buffers to all ranks."""
        new = [weight for weight in reversed(self._trained()) if weight not in self._place]
        for weight in new:
            weight.register_post_accumulate_grad_hook(self._on_gradient)
            if self._is_sum and not any(weight in other._place for other in _reducers):
                weight.register_hook(lambda gradient: gradient * WORLD_SIZE if _now.is_part else gradient)
        for bucket in _buckets(new):
            self._place.update(dict.fromkeys(bucket, len(self._buckets)))
            self._buckets.append(bucket)
        if new:
            _broadcast([*self._trained(), *self.buffers()])

    def buffers(self):
        return [buffer for model in self._models for buffer in model.buffers()]

    def _trained(self):
        weights = dict.fromkeys(weight for group in self._optimizer.param_groups for weight in group["params"])
        return [weight for weight in weights if weight.requires_grad]

    def _on_gradient(self, weight):
        if not self._is_running:
            self._is_running, self._sent, self._seen = True, [], set()
            self._missing = [len(bucket) for bucket in self._buckets]
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        place = self._place[weight]
        if weight.grad.is_sparse:
            raise RuntimeError("sparse gradients are not averaged here: make the embedding with sparse=False")
        if weight not in self._seen:
            self._seen.add(weight)
            self._missing[place] -= 1
        elif place < len(self._sent):
            raise RuntimeError("a weight's gradient comes in parts: use checkpoint(…, use_reentrant=False)")
        while len(self._sent) < len(self._buckets) and not self._missing[len(self._sent)]:
            self._send()

    def _send(self):
        bucket = self._buckets[len(self._sent)]
        has_gradient = torch.tensor([float(weight.grad is not None) for weight in bucket]).to(bucket[0])
        gradients = [torch.zeros_like(weight) if weight.grad is None else weight.grad for weight in bucket]
        message = torch.cat([has_gradient, *(each.reshape(-1) for each in gradients)]).detach()
        self._sent.append((bucket, message, dist.all_reduce(message, async_op=True)))

    def _finish(self):
        while len(self._sent) < len(self._buckets):
            self._send()
        self._is_running = False
        for bucket, message, work in self._sent:
            work.wait()
            counts, *sums = message.split([len(bucket), *(weight.numel() for weight in bucket)])
            for place, weight in enumerate(bucket):
                average = (sums[place] / WORLD_SIZE).view_as(weight)
                if weight.grad is not None:
                    weight.grad.detach().copy_(average)
                elif counts[place]:
                    weight.grad = average

    def _check(self, *step):
        if any(weight.grad is not None and weight not in self._place for weight in self._trained()):
            raise RuntimeError("a trained weight was frozen when the pass began: unfreeze between two passes")


def _buckets(weights):
    """Return the weights in groups of one type and device, each about as large as a message."""
    buckets = []
    for weight in weights:
        is_like = buckets and (buckets[-1][0].dtype, buckets[-1][0].device) == (weight.dtype, weight.device)
        if not is_like or sum(each.nbytes for each in buckets[-1]) >= MESSAGE:
            buckets.append([])
        buckets[-1].append(weight)
    return buckets


def _broadcast(tensors):
    with torch.no_grad():
        for tensor in tensors:
            dist.broadcast(tensor, 0)


def mean(value):
    return total(value) / WORLD_SIZE if WORLD_SIZE > 1 and _now.is_part else value


def total(value):
    if WORLD_SIZE == 1 or not _now.is_part:
        return value
    added = value.detach().clone() if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(added)
    if isinstance(value, torch.Tensor):
        return added
    return added.numpy()[()] if hasattr(value, "dtype") else type(value)(added.item())


class _Nothing:
    """A placeholder for objects that only rank 0 has. Each call or attribute of it does nothing and returns it."""

    def __call__(self, *values, **options):
        return self

    def __getattr__(self, name):
        return self

    __enter__ = __call__

    def __exit__(self, *error):
        pass

    def __fspath__(self):
        return os.devnull


def main_only(function):
    return function if RANK == 0 else _Nothing()


def main_first(make):
    made = make() if LOCAL_RANK == 0 else None
    wait_for_all()
    return made if LOCAL_RANK == 0 else make()


def open_file(path, mode="r", *options, **named):
    if not set(mode) & set("wxa+"):
        wait_for_all()
    elif RANK > 0:
        path, mode = os.devnull, mode.replace("x", "w")
    return open(path, mode, *options, **named)


def load(*values, **options):
    """Wait until all ranks are here, so that rank 0 has written its files. Then call `torch.load` and return the
    result."""
    wait_for_all()
    return torch.load(*values, **options)


_start()
