"""Passes over data loaders: which batches are cut into slices, and what the script does with them."""

from __future__ import annotations

import collections
from typing import Any, Callable, Deque

import torch

from .batch_slices import rank_batches, size_of, slice_of
from .loop_purpose import ALWAYS, NEVER, UNKNOWN, training_verdict
from .models import Models
from .printed_values import PrintedValues
from .random_streams import RandomStreams
from .rank_state import NO_BATCH, BatchSizes, Training, refusal, user_frame


class RankParts:
    def __init__(self, training: Training) -> None:
        self.training = training
        self.models = Models(training)
        self.streams = RandomStreams(training)
        self.values = PrintedValues(training, self.streams)
        self.models.is_of_slice = self.values.follower.table.has_rows
        self.loops: dict[Any, str] = {}

    def start_pass(self, loader: Any) -> None:
        """Prepare a pass over the data loader `loader` that may train. Set new model tensors to rank 0's values, and
        the shared random streams and the loader's own generators to rank 0's state."""
        self.models.equalise_new()
        found = [getattr(owner, "generator", None) for owner in (loader, getattr(loader, "sampler", None))]
        generators = {id(each): each for each in found if each is not None and each.device.type == "cpu"}
        self.streams.agree(list(generators.values()))


class LoaderPass:
    """A pass of the innermost user code over one loader. If the source does not show whether the loop of the pass
    trains, the loop counts as training once an earlier pass of the same loop has led to a backward."""

    def __init__(self, parts: RankParts, loader: Any) -> None:
        self._parts = parts
        self._training = parts.training
        self._loader = loader
        frame = user_frame()
        code, line = (frame.f_code, frame.f_lineno) if frame is not None else (None, 0)
        self._site = (code, line, id(loader.dataset))
        self._verdict = training_verdict(frame)
        if self._verdict == UNKNOWN and self._site in parts.loops:
            self._verdict = ALWAYS
        self._given: Deque[BatchSizes] = collections.deque()
        self._seen = -1
        self._last: BatchSizes | None = None
        self.streaming = isinstance(loader.dataset, torch.utils.data.IterableDataset)
        self._by_index = not self.streaming and loader.batch_sampler is not None
        self._is_collated_by_script = self._by_index and loader.collate_fn is not torch.utils.data.default_collate
        self._draws = not isinstance(loader.dataset, torch.utils.data.TensorDataset)

    def may_train(self) -> bool:
        """Return whether the loop that reads this pass over a data loader may train. False only if the script's source
        shows that the loop leads to no backward."""
        return self._verdict != NEVER

    def is_trained_with(self) -> bool:
        """Return whether the script trains with the next batch of the data loader. False if this is not known yet, or
        if gradients are off."""
        if self._verdict != ALWAYS or not torch.is_grad_enabled():
            return False
        return self._parts.loops.get(self._site) == "eval" or self._parts.models.is_training()

    def take(self, index: Any) -> Any:
        """Return the part of `index` that this rank loads, and record the batch's sizes. `index` is the list of
        data-set indices of a whole batch. Return `index` unchanged in mode `scale`, and for a batch that is not cut at
        its indices."""
        if not self._by_index or not isinstance(index, (list, tuple)):
            return index
        training, streams, total = self._training, self._parts.streams, len(index)
        if training.mode == "scale":
            sliced = self.is_scaled()
            self._given.append(BatchSizes(sliced, total, total * training.size if sliced else total))
            return index
        given = training.divide(total) if self.is_trained_with() else BatchSizes(False, total, total)
        self._given.append(given)
        if not given.sliced:
            return index
        if self._loader.num_workers == 0:
            streams.use(True)
            streams.loading = True
            if self._draws:
                streams.use_own_python()
        return index[training.rank * given.local :][: given.local]

    def is_scaled(self) -> bool:
        """Return whether the ranks share the samples of this pass over a data loader as a DistributedSampler would.
        True only in mode `scale`, if the loop may train and a model is in training mode. The answer is known at the
        beginning of the pass."""
        scaled = self._training.mode == "scale" and self._by_index
        return scaled and self.may_train() and self._parts.models.is_training()

    def share_indices(self, indices: Any) -> Any:
        """Return an iterator over this rank's share of `indices`, the batches of data-set indices that the loader's
        sampler draws. Return `indices` unchanged if the ranks do not share this pass (`is_scaled`), or if gradients are
        off."""
        if not self.is_scaled() or not torch.is_grad_enabled():
            return indices
        return rank_batches(self._loader, indices, self._training.rank, self._training.size)

    def begin(self) -> None:
        """Prepare for the next batch of the data loader, before it is loaded: switch to the shared random stream,
        determine whether the loop trains, and clear the current batch's sizes."""
        self._parts.streams.loading = False
        self._parts.streams.use(False)
        if self._last is not None:
            self._look_back(self._last)
        elif self._verdict != ALWAYS:
            self._judge_again()
        self._training.batch = NO_BATCH

    def _look_back(self, last: BatchSizes) -> None:
        """Record that the loop over the data loader trains, if the script has run a backward since the last batch was
        delivered."""
        parts, training = self._parts, self._training
        if training.backwards > self._seen and torch.is_grad_enabled():
            parts.loops.setdefault(self._site, "train" if parts.models.is_training() else "eval")
            self._verdict = ALWAYS

    def _judge_again(self) -> None:
        """Record that the loop trains, if the code that now reads batches is another than the code that created the
        iterator, and its source shows that it leads to a backward."""
        frame = user_frame()
        elsewhere = frame is not None and (frame.f_code, frame.f_lineno) != self._site[:2]
        if elsewhere and training_verdict(frame) == ALWAYS:
            self._verdict = ALWAYS

    def draw_own(self, draw: Callable[[], Any]) -> Any:
        """Return the next batch of the data loader, read by `draw()`. For an IterableDataset in mode `scale` that the
        script trains with, draw one batch for each rank, and return this rank's."""
        training = self._training
        if training.mode != "scale" or not self.streaming or not self.is_trained_with():
            return draw()
        batches = [draw() for _ in range(training.size)]
        size = size_of(batches[training.rank]) or 0
        self._given.append(BatchSizes(True, size, size * training.size))
        return batches[training.rank]

    def deliver(self, data: Any) -> Any:
        """Return `data`, a batch that the data loader has loaded, in the form that the script receives: cut to this
        rank's slice where needed. Record its sizes. Raise ScriptRefused if the script also draws batches itself."""
        parts, training = self._parts, self._training
        training.loaded = True
        if training.cropped:
            raise refusal(
                f"rows that were drawn at {training.cropped} were divided, and now a loader yields batches",
                "a data set that is drawn inside a loop: draw it before, or divide batches by worldsize.shard",
            )
        parts.streams.loading = False
        parts.streams.use_shared_python()
        given = self._given.popleft() if self._given else NO_BATCH
        if not given.sliced and self.is_trained_with() and (self.streaming or self._by_index):
            given, data = self._cut(given, data)
        self._last, self._seen = given, training.backwards
        training.batch = training.asked = given
        parts.values.forget()
        if given.sliced:
            loader = self._loader if self._is_collated_by_script else None
            data = parts.values.follower.follow(data, given.local, given.total, collated=loader)
        if given.sliced or self.is_trained_with():
            training.counts["sliced" if given.sliced else "whole"] += 1
            training.samples += given.local
        parts.streams.use(given.sliced)
        return data

    def _cut(self, given: BatchSizes, data: Any) -> tuple[BatchSizes, Any]:
        """Cut `data`, a batch that was loaded whole, to this rank's slice, if its first dimension is that of the batch
        and the number of ranks divides it. Return the batch's sizes and the data."""
        total = size_of(data)
        if total is None or given.total not in (0, total):
            return given, data
        sizes = self._training.divide(total)
        return sizes, slice_of(data, total, self._training.rank * sizes.local, sizes.local) if sizes.sliced else data

    def end(self) -> None:
        """Finish the pass after the data loader's last batch: switch back to the shared random streams, average the
        running statistics over the ranks, and show a notice if no batch could be divided."""
        parts, counts = self._parts, self._training.counts
        if counts["whole"] and not counts["sliced"]:
            self._training.show_notice(
                f"no batch was divisible by {self._training.size} ranks: every rank computed the whole batch, "
                "which is correct, but no faster"
            )
        parts.streams.use(False)
        parts.streams.use_shared_python()
        self._training.batch = NO_BATCH
        parts.values.follower.whole.forget()
        parts.models.average_buffers()
