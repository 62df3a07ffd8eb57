"""Reducer that adds up the gradients of all ranks. Each backward adds to `.grad` what one process with the whole batch
would add.

It works on tensors and on backwards, not on modules. It does not matter whether a model is called as a whole or through
its methods, how many models there are, or how often a backward precedes a step. Each rank scales its loss to its part
of the whole batch's loss, so that gradients need only be added.
"""

from __future__ import annotations

from typing import Any

import torch

from .gradient_buckets import EXTRA, HEAD, LOSS, WEIGHT, BackwardPass, BucketPlan
from .loss_graph import start_gradients
from .models import Models
from .printed_values import PrintedValues
from .rank_state import Training, refusal, replace, user_frame
from .trained_tensors import TrainedTensors

_FRAMES = 3


class GradientReducer:
    def __init__(self, training: Training, models: Models, values: PrintedValues) -> None:
        self._training = training
        self._world = training.world
        self._values = values
        self._trained = TrainedTensors(training, models, self._on_gradient)
        self._plans: dict[Any, BucketPlan] = {}
        self._several: set[int] = set()
        self._run: BackwardPass | None = None
        self._late: Any = None

    def install(self) -> None:
        replace(torch.autograd, "backward", self._backward)

    def _backward(
        self,
        original: Any,
        tensors: Any,
        grad_tensors: Any = None,
        retain_graph: Any = None,
        create_graph: bool = False,
        grad_variables: Any = None,
        inputs: Any = None,
    ) -> None:
        keywords = {"retain_graph": retain_graph, "create_graph": create_graph, "inputs": inputs}
        gradients = grad_tensors if grad_variables is None else grad_variables
        if not self._training.active or self._run is not None:
            original(tensors, gradients, **keywords)
            return
        roots = (tensors,) if isinstance(tensors, torch.Tensor) else tuple(tensors)
        if gradients is None or isinstance(gradients, torch.Tensor):
            gradients = (gradients,) * len(roots)
        with self._values.follower.paused():
            self._train(original, roots, tuple(gradients), keywords)

    def _train(self, original: Any, roots: Any, gradients: Any, keywords: Any) -> None:
        training = self._training
        site = _site()
        if not self._trained.find(roots, site in self._plans):
            original(roots, gradients, **keywords)
            return
        training.used = True
        self._check_late()
        run = self._run = BackwardPass(self._plans.get(site))
        handles: list[Any] = []
        try:
            gradients = start_gradients(training, run, roots, gradients, handles)
            self._set_aside(run)
            original(roots, gradients, **keywords)
            if not run.fired:
                run.extra = self._trained.find_missed(roots)
                run.fired = dict.fromkeys(run.extra)
            self._finish(run, site, roots)
        finally:
            self._run = None
            for handle in handles:
                handle.remove()
        training.backwards += 1

    def _set_aside(self, run: BackwardPass) -> None:
        """Set aside the gradients that earlier backward passes have left in the trained tensors. They must not be added
        up over the ranks again."""
        for reference in self._trained.tensors:
            tensor = reference()
            if tensor is not None and tensor.grad is not None:
                run.former.append((tensor, tensor.grad))
                tensor.grad = None

    def _on_gradient(self, index: int) -> None:
        run = self._run
        if run is None:
            return
        plan, again = run.plan, index in run.fired
        run.fired[index] = None
        number = None if plan is None else plan.number.get(index)
        if plan is None or number is None:
            (self._several.add if again else run.extra.append)(index)
        elif again:
            self._handle_repeat(run, index, number)
        elif index not in self._several:
            run.pending[number] -= 1
            while run.next < len(plan.buckets) - 1 and not run.pending[run.next]:
                self._send_next(run, plan)

    def _handle_repeat(self, run: BackwardPass, index: int, number: int) -> None:
        """Defer the message of a tensor that gets its gradient in several parts of one backward pass: from now on, it
        is sent at the end of the pass. Raise a refusal if the message was already sent."""
        if index in self._several:
            return
        if number < run.next:
            raise refusal(
                "a weight gets its gradient in several parts of one backward pass, after it was sent",
                "use torch.utils.checkpoint with use_reentrant=False",
            )
        self._several.add(index)
        run.pending[number] += 1

    def _send_next(self, run: BackwardPass, plan: BucketPlan) -> None:
        """Send the next message of gradients of a backward pass. Messages are sent in their order, each when it is
        complete; those that are incomplete at the pass's end, and the last one, are sent then."""
        bucket = plan.buckets[run.next]
        run.next += 1
        bucket.fill()
        if run.next == len(plan.buckets):
            self._write_tail(run, plan)
        bucket.send(self._world)

    def _finish(self, run: BackwardPass, site: Any, roots: Any) -> None:
        extra, loss = True, None
        if run.plan is not None:
            extra, loss = self._complete(run, run.plan)
            if run.idle:
                del self._plans[site]
        if extra:
            settled = self._agree_on_plan(run, site)
            loss = loss if settled is None else settled
        self._add_former(run)
        self._values.record_backward(roots, loss, "sum" if run.summed else "mean")

    def _complete(self, run: BackwardPass, plan: BucketPlan) -> tuple[bool, Any]:
        """Send the remaining messages of gradients of a backward pass, wait for all, and copy the sums into the
        gradients. Return whether a rank has trained tensors that the plan does not contain, and the whole batch's loss.
        """
        tail = plan.tail
        while run.next < len(plan.buckets):
            self._send_next(run, plan)
        for bucket in plan.buckets:
            bucket.work.wait()
        head = tail[:HEAD].tolist() if tail.device.type == "cpu" else tail[:HEAD].clone()
        divisor = self._divisor(run, head[WEIGHT], torch.finfo(tail.dtype).eps)
        missing = any(bucket.missing for bucket in plan.buckets)
        used = tail[HEAD:].tolist() if missing else None
        run.idle = used is not None and not any(used)
        for bucket in plan.buckets:
            if divisor is not None:
                bucket.flat.div_(divisor)
            rows = [used[plan.place[index]] for index in bucket.indices] if used is not None else None
            bucket.give_back(rows)
        return self._take_extra(run, head[EXTRA]), head[LOSS] if divisor is None else head[LOSS] / divisor

    def _write_tail(self, run: BackwardPass, plan: BucketPlan) -> None:
        tail = plan.tail
        tail.fill_(1.0)
        with torch.no_grad():
            if any(bucket.missing for bucket in plan.buckets):
                rows = [float(index in run.fired) for index, _ in plan.order]
                tail[HEAD:] = torch.tensor(rows, dtype=tail.dtype)
            tail[EXTRA] = float(bool(run.extra))
            if run.weight is not None:
                tail[WEIGHT] = run.weight
            tail[LOSS] = run.loss

    def _divisor(self, run: BackwardPass, weight: Any, rounding: float) -> Any:
        """Return the number by which the sums of the ranks' gradients must still be divided, from the ranks' total
        `weight`; None if there is none."""
        if not run.parts:
            return self._world.size
        if run.weight is None or isinstance(weight, torch.Tensor):
            return None if run.weight is None else weight
        return weight if weight and abs(weight - 1.0) > rounding * self._world.size else None

    def _take_extra(self, run: BackwardPass, count: Any) -> bool:
        """Return whether a rank has trained tensors that the backward pass's plan does not contain (`count` ranks). On
        a GPU, a rank that has not done so itself does not wait for the count, and checks it later. Raise a refusal on a
        GPU if this rank has done so and not all others have."""
        if not isinstance(count, torch.Tensor):
            return bool(count)
        if run.extra and int(count.item()) < self._world.size:
            raise self._uneven_error()
        self._late = count if not run.extra else None
        return bool(run.extra)

    def _check_late(self) -> None:
        late, self._late = self._late, None
        if late is not None and late.item():
            raise self._uneven_error()

    def _uneven_error(self) -> Exception:
        return refusal(
            "some ranks trained parameters that others did not use in the same step",
            "let every batch use all parameters, or run it on one rank",
        )

    def _agree_on_plan(self, run: BackwardPass, site: Any) -> Any:
        """Agree with the other ranks on a plan for the messages of gradients, after the first backward pass at a place
        in the script, or after one that reached more tensors than before, and send these gradients. Return the whole
        batch's loss; None if there are no such tensors."""
        places = {index: place + 1 for place, index in enumerate(dict.fromkeys(run.extra))}
        mine = torch.zeros(2, len(self._trained.tensors) + 1, dtype=torch.float64)
        for index, place in places.items():
            mine[0, index] = 1.0
            mine[1, index] = place if self._training.rank == 0 else 0.0
        mine[0, -1] = len(self._trained.tensors)
        self._world.add_up(mine)
        if mine[0, -1].item() != len(self._trained.tensors) * self._world.size:
            raise refusal("the ranks train different models", "let every rank make the same model and optimizer")
        found = [index for index, count in enumerate(mine[0, :-1].tolist()) if count]
        order = mine[1].tolist()
        found.sort(key=lambda index: (order[index] or len(order), index))
        members = [
            (index, tensor) for index in found for tensor in (self._trained.tensors[index](),) if tensor is not None
        ]
        if not members:
            return None
        former = self._plans[site].order if site in self._plans else []
        self._plans[site] = BucketPlan([*former, *members])
        plan = BucketPlan(members)
        late = BackwardPass(plan)
        late.fired, late.weight, late.loss, late.parts = run.fired, run.weight, run.loss, run.parts
        return self._complete(late, plan)[1]

    def _add_former(self, run: BackwardPass) -> None:
        with torch.no_grad():
            for tensor, former in run.former:
                if tensor.grad is not None:
                    if former.is_sparse or tensor.grad.is_sparse:
                        former = former + tensor.grad
                    else:
                        former.add_(tensor.grad)
                tensor.grad = former


def _site() -> Any:
    """Return the place of the backward in the user's code: the innermost lines of its call stack."""
    frame = user_frame()
    lines: list[Any] = []
    while frame is not None and len(lines) < _FRAMES:
        lines.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    return tuple(lines)
