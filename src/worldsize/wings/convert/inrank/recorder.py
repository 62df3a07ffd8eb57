"""Recorder for the first steps of a training, so that two versions of it can be compared. It runs the script itself.

The record contains, for each backward call, the loss, its line and the samples that were fetched since the previous
one. For each step of an optimizer, it contains the size of the gradients and of the change of the weights. Features
that would make two runs differ are switched off (`switches.py`, `random_draws.py`).

Standard library and torch; runs on Python 3.8.
"""

from __future__ import annotations

import faulthandler
import json
import os
import runpy
import sys
import time
import traceback
from typing import Any, Dict, List

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from . import random_draws, switches

SEED = 20_011
MOST_BACKWARDS = 200
_LEAST = 0.1
"""Seconds for a script whose time is over before it begins. They are enough to write the timeout to the log."""
WAIT = 10.0
"""Seconds to wait for the records of the other ranks, which may still need messages from this rank."""


class Recorder:
    """The recorder of the training in one process. `order` contains: the file to write (`record`) and those of all
    ranks (`peers`); the directories that the script may change (`writable`, the first with the script's own files); and
    convert's helpers (`helpers`).

    It also states when to end: after `steps` steps, after the first step that ends more than `enough` seconds after the
    first one or after the time `latest`, and with a traceback at the time `until`. Times are of `time.monotonic`, which
    all processes of a machine share. They include the import of torch.
    """

    def __init__(self, order: Dict[str, Any]) -> None:
        self.order = order
        self.folder = os.path.realpath(order["writable"][0])
        self.flags = {"batch_norm": False, "random": False, "low_precision": False}
        self._helpers = os.path.realpath(order["helpers"])
        self._enough = order["latest"]
        self._steps: List[Dict[str, Any]] = []
        self._backwards: List[Dict[str, Any]] = []
        self._samples: List[str] = []
        self._state: Any = None
        self._first: Dict[Any, torch.Tensor] = {}
        self._gradient = 0.0
        self._own_files: Dict[str, bool] = {}

    def install(self) -> None:
        backward = torch.Tensor.backward

        def recorded_backward(loss: torch.Tensor, *values: Any, **options: Any) -> None:
            self.note_backward(loss)
            backward(loss, *values, **options)
            self._state = random_draws.random_state()

        torch.Tensor.backward = recorded_backward
        register_optimizer_step_pre_hook(self.before_step)
        register_optimizer_step_post_hook(self.after_step)

    def note_samples(self, indices: Any) -> None:
        """Record the indices of the samples that a data loader fetches for the training. Those of an evaluation
        (without gradients) do not count."""
        if torch.is_grad_enabled():
            self._samples += [repr(index) for index in (indices if isinstance(indices, (list, tuple)) else [indices])]
            self._state = random_draws.random_state()
            random_draws.begin_pass()

    def note_backward(self, loss: torch.Tensor) -> None:
        if random_draws.were_drawn() or self._state not in (None, random_draws.random_state()):
            self.flags["random"] = True
        if loss.dtype in (torch.float16, torch.bfloat16):
            self.flags["low_precision"] = True
        value = float(loss.detach().sum())
        self._backwards.append({"line": self._user_line(), "loss": value, "samples": self._samples})
        self._samples = []
        if len(self._backwards) > MOST_BACKWARDS:
            self.end("backwards")

    def before_step(self, optimizer: Any, *step: Any) -> None:
        weights = weights_of(optimizer)
        for weight in weights:
            self._first.setdefault(weight, weight.detach().clone())
        self._gradient = sum(size_of(weight.grad) for weight in weights if weight.grad is not None)

    def after_step(self, optimizer: Any, *step: Any) -> None:
        weights = weights_of(optimizer)
        self._steps.append(
            {
                "gradient": self._gradient,
                "weights": sum(size_of(weight) for weight in weights),
                "change": sum(size_of(weight.detach() - self._first[weight]) for weight in weights),
                "backwards": self._backwards,
            }
        )
        self._backwards = []
        if len(self._steps) == 1:
            self._enough = min(self._enough, time.monotonic() + self.order["enough"])
        if len(self._steps) >= self.order["steps"] or time.monotonic() > self._enough:
            self.end("steps")

    def _user_line(self) -> Any:
        """Return [path, line] of the innermost stack frame that is in the script's own files; None if there is none."""
        frame: Any = sys._getframe(1)
        while frame is not None:
            if self._is_own_file(frame.f_code.co_filename):
                return self._place(frame.f_code.co_filename, frame.f_lineno)
            frame = frame.f_back
        return None

    def _place(self, path: str, line: Any) -> List[Any]:
        return [os.path.relpath(os.path.realpath(path), self.folder), line]

    def _is_own_file(self, path: str) -> bool:
        """Return whether a path is one of the script's own files. `<frozen os>` and `<string>` are not files."""
        if path not in self._own_files:
            real = os.path.realpath(path)
            is_below = real.startswith(self.folder + os.sep) and real != self._helpers
            self._own_files[path] = is_below and not path.startswith("<")
        return self._own_files[path]

    def write(self, end: str, error: Any = None) -> None:
        record = {"end": end, "error": error, "steps": self._steps, "backwards": self._backwards, "flags": self.flags}
        part = self.order["record"] + ".part"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(record, file)
        os.replace(part, self.order["record"])

    def end(self, how: str) -> None:
        """Write the record of this rank's training, wait until the other ranks have written theirs, at most WAIT
        seconds, and end this process. `how` is the reason, such as "steps"."""
        self.write(how)
        until = time.monotonic() + WAIT
        while time.monotonic() < until and not all(map(os.path.exists, self.order["peers"])):
            time.sleep(0.01)
        end_process(0)

    def note_error(self, error: BaseException) -> None:
        """Write the record of this rank's training with the error that ended the script, and the error's line in the
        script's own files."""
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if self._is_own_file(frame.filename)]
        place = self._place(frames[-1].filename, frames[-1].lineno) if frames else None
        text = "".join(traceback.format_exception_only(type(error), error)).strip().splitlines()[-1]
        self.write("error", {"text": text[:500], "line": place})


def weights_of(optimizer: Any) -> List[torch.Tensor]:
    return [weight for group in optimizer.param_groups for weight in group["params"]]


def size_of(tensor: torch.Tensor) -> float:
    """Return the sum of the absolute values of a tensor."""
    values = tensor.detach()
    return float((values if values.layout == torch.strided else values.to_dense()).double().abs().sum())


def end_process(code: int) -> None:
    """End the process at once. Threads and exit handlers could wait for ranks that have already ended."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as file:
        order = json.load(file)
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(_LEAST, order["until"] - time.monotonic()), exit=True)
    recorder = Recorder(order)
    del sys.argv[:2]
    sys.path.insert(0, os.path.dirname(os.path.abspath(sys.argv[0])))
    random_draws.set_seeds(SEED)
    random_draws.install()
    recorder.install()
    switches.install(recorder.flags, recorder.note_samples)
    switches.forbid_writing([*order["writable"], os.path.dirname(order["record"])])
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        if ended.code not in (None, 0):
            recorder.write("exit", {"text": f"it ends with exit code {ended.code}", "line": None})
            end_process(1)
    except BaseException as error:  # noqa: BLE001  # any error here ended the script
        recorder.note_error(error)
        traceback.print_exc()
        end_process(1)
    recorder.end("finished")
