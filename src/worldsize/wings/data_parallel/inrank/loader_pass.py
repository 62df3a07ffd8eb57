"""One pass over one loader: which of its batches are cut, and what became of them."""

from __future__ import annotations

import collections

from .batch_slices import size_of, slice_of
from .loop_counts import LoopCounts
from .loop_purpose import ALWAYS, NEVER, SOMETIMES, UNKNOWN, printed_sizes, training_verdict
from .rank_state import NO_BATCH, BatchSizes, user_frame
from .sampler_share import rank_batches
from .torch_module import torch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Deque

    from .rank_parts import RankParts

_INDICES = (list, tuple)


class LoaderPass:
    """One pass over one loader."""

    def __init__(self, parts: RankParts, loader: Any, site: Any, verdict: str) -> None:
        self._parts = parts
        self._training = parts.training
        self.site = site
        self.loader = loader
        self.verdict = verdict
        self._given: Deque[BatchSizes] = collections.deque()
        self._seen = -1
        self._last: BatchSizes | None = None
        self._counts: LoopCounts | None = None
        dataset = getattr(loader, "dataset", None)
        self.streaming = isinstance(dataset, torch.utils.data.IterableDataset)
        self._batched = getattr(loader, "batch_sampler", None) is not None
        self._inside = getattr(loader, "num_workers", 0) == 0
        self._draws = not isinstance(dataset, torch.utils.data.TensorDataset)

    def may_train(self) -> bool:
        """False where the source shows that its loop leads to no backward."""
        return self.verdict != NEVER

    def is_trained_with(self) -> bool:
        """Whether the next batch is trained with, as far as is known."""
        if self.verdict != ALWAYS or not torch.is_grad_enabled():
            return False
        return self._parts.loops.get(self.site) == "eval" or self._parts.models.is_training()

    def take(self, index: Any) -> Any:
        """Instead of the indices of a whole batch, this rank's."""
        if self.streaming or not self._batched or not isinstance(index, _INDICES):
            return index
        total, training = len(index), self._training
        if training.mode == "scale":
            sliced = self.is_scaled()
            self._given.append(BatchSizes(sliced, total, total * training.size if sliced else total))
            return index
        if not self.is_trained_with() or total % training.size:
            self._given.append(BatchSizes(False, total, total))
            return index
        local = total // training.size
        self._given.append(BatchSizes(True, local, total))
        if self._inside:
            self._parts.streams.use(True)
            self._parts.streams.loading = True
            if self._draws:
                self._parts.streams.use_own_python()
        return index[training.rank * local : (training.rank + 1) * local]

    def is_scaled(self) -> bool:
        """Whether this pass is shared out as a DistributedSampler would: known at its beginning."""
        training = self._training
        return (
            training.mode == "scale"
            and self.may_train()
            and self._parts.models.is_training()
            and not (self.streaming or not self._batched)
        )

    def share_indices(self, indices: Any) -> Any:
        """Under `scale`, what the sampler draws is each rank's in turn."""
        if not self.is_scaled() or not torch.is_grad_enabled():
            return indices
        return rank_batches(self.loader, indices, self._training.rank, self._training.size)

    def begin(self) -> None:
        """Before the next batch is taken: what became of the last one tells what the loop is for."""
        parts, training = self._parts, self._training
        parts.streams.loading = False
        parts.streams.use(False)
        if self._counts is not None and self._last is not None:
            self._counts.record_batch(user_frame(3), self._last.sliced)
        if self._last is not None and training.backwards > self._seen and torch.is_grad_enabled():
            parts.loops.setdefault(self.site, "train" if parts.models.is_training() else "eval")
            self.verdict = ALWAYS
        elif self._last is not None and self._last.sliced and training.backwards == self._seen:
            self._notice_missed_batch()
        training.batch = NO_BATCH
        if self._last is None and self.verdict != ALWAYS:
            self._judge_again()

    def _judge_again(self) -> None:
        """Where an iterator was made elsewhere, what takes from it tells more."""
        frame = user_frame(3)
        if frame is not None and (frame.f_code, frame.f_lineno) != self.site[:2]:
            verdict = training_verdict(frame)
            self.verdict = verdict if verdict == ALWAYS else self.verdict

    def _count(self) -> None:
        """Before the first slice: what the loop will count of it and of the others."""
        frame = user_frame(3)
        if frame is None:
            return
        self._counts = LoopCounts(frame)
        if self._counts.lines:
            self._training.notice(
                "{}: what the loop counts of its batches is added up over the ranks when it ends; before, it is of "
                "rank 0's slices: {}".format(frame.f_code.co_filename, ", ".join(self._counts.lines))
            )
        sizes = printed_sizes(frame.f_code, frame.f_lineno)
        if sizes:
            self._training.notice(
                "{}: what the loop says of its batches' sizes, and by them, is of rank 0's slices: {}".format(
                    frame.f_code.co_filename, ", ".join(sizes)
                )
            )

    def _notice_missed_batch(self) -> None:
        self._training.notice(
            f"a batch of {self._location()} was cut into slices and not trained with: "
            "what is counted of it is of a slice"
        )

    def _location(self) -> str:
        code, line, _ = self.site
        return f"{code.co_filename}:{line}" if code is not None else "the loader"

    def draw_own(self, draw: Callable[[], Any]) -> Any:
        """The next batch; of a stream under `scale`, this rank's of the next ones, one for each."""
        training = self._training
        if training.mode != "scale" or not self.streaming or not self.is_trained_with():
            return draw()
        batches = [draw() for _ in range(training.size)]
        size = size_of(batches[training.rank]) or 0
        self._given.append(BatchSizes(True, size, size * training.size))
        return batches[training.rank]

    def deliver(self, data: Any) -> Any:
        """The batch as the script gets it."""
        parts, training = self._parts, self._training
        training.loaded = True
        parts.streams.loading = False
        parts.streams.use_shared_python()
        given = self._given.popleft() if self._given else BatchSizes(False, 0, 0)
        if not given.sliced and self.is_trained_with() and (self.streaming or self._batched):
            given, data = self._cut(given, data)
        self._last, self._seen = given, training.backwards
        training.batch = training.asked = given
        parts.values.forget()
        if given.sliced and self._counts is None:
            self._count()
        if given.sliced:
            training.counts["sliced"] += 1
            training.samples += given.local
            parts.streams.use(True)
        elif self.is_trained_with():
            training.counts["whole"] += 1
            training.samples += given.local
        return data

    def _cut(self, given: BatchSizes, data: Any) -> tuple[BatchSizes, Any]:
        """What was loaded whole, where its first dimension is the batch's."""
        training = self._training
        total = size_of(data)
        if total is None or (given.total and given.total != total):
            return given, data
        if total % training.size:
            return BatchSizes(False, total, total), data
        local = total // training.size
        return BatchSizes(True, local, total), slice_of(data, total, training.rank * local, local)

    def end(self) -> None:
        """The loader has no more batches."""
        parts, counts = self._parts, self._training.counts
        if counts["whole"] and not counts["sliced"]:
            self._training.notice(
                f"no batch divided by {self._training.size} ranks: each went whole to every rank, which is right, "
                "but no faster"
            )
        parts.streams.use(False)
        parts.streams.use_shared_python()
        self._training.batch = NO_BATCH
        parts.models.average_buffers()
        if self._counts is not None:
            self._counts.add_up(user_frame(3), parts.world)


def make_pass(parts: RankParts, loader: Any) -> LoaderPass:
    """A new pass of the innermost user code over `loader`. Where the source does not tell whether the loop trains, it
    does if an earlier pass of it has led to a backward."""
    frame = user_frame(3)
    code, line = (frame.f_code, frame.f_lineno) if frame is not None else (None, 0)
    site = (code, line, id(loader.dataset))
    verdict = training_verdict(frame)
    if verdict in (SOMETIMES, UNKNOWN) and site in parts.loops:
        verdict = ALWAYS
    return LoaderPass(parts, loader, site, verdict)
