"""The tables of work that may take long without a sign of life, according to a stack's frames: checkpoints and
compilations.

Only frames of libraries that the user's innermost code has called count, since a function of the user's own may have
any name.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from worldsize.common.named_tuple import NamedTuple
from worldsize.wings.hangs.judgement.stacks.rank_stacks import Frame
from worldsize.wings.hangs.judgement.stacks.wait_rules import FrameRule, LineRule

WRITES, READS, COMPILES = "writes a checkpoint", "reads a checkpoint", "compiles"


class LongWork(NamedTuple):
    """The long work of a thread or a child. `what` is one of the words above. `call` is the function that the user's
    code has called, or the child's program."""

    what: str
    call: str


def _frames(what: str, file: str, function: str, call: str) -> FrameRule:
    """Return the rule for the frames of long work `what` (such as a checkpoint) that match the patterns `file` and
    `function`. A `call` that is empty, or ends with a dot or a space, is a prefix of the function's own name."""
    return FrameRule(what, re.compile(file), re.compile(function), call)


_DCP = "torch.distributed.checkpoint."
_LIGHTNING = (
    r"(?:^|/)(?:pytorch_)?lightning(?:_fabric)?/(?:\w+/)*"
    r"(?:checkpoint_connector|model_checkpoint|\w+_io|strategy|trainer|fabric)\.py$"
)
_MODELS = r"/(?:transformers/(?:modeling_utils|trainer)|diffusers/\w+/\w+_utils|peft/(?:peft_model|mixed_model))\.py$"
_TENSORFLOW = (
    r"tensorflow/python/(?:checkpoint/checkpoint(?:_management)?|training/(?:saver|checkpoint_management|tracking/util)"
    r"|saved_model/(?:save|load))\.py$"
)
_KERAS = r"keras/(?:src/)?(?:legacy/)?saving/"

FRAME_RULES: tuple[FrameRule, ...] = (
    # PyTorch.
    _frames(WRITES, r"torch/serialization\.py$", r"save|_save|_legacy_save", "torch.save"),
    _frames(READS, r"torch/serialization\.py$", r"load|_load|_legacy_load", "torch.load"),
    _frames(WRITES, r"torch/distributed/checkpoint/state_dict_saver\.py$", r"\w+", _DCP + "save"),
    _frames(READS, r"torch/distributed/checkpoint/state_dict_loader\.py$", r"\w+", _DCP + "load"),
    _frames(WRITES, r"torch/distributed/checkpoint/\w+\.py$", r"write_data|_write_\w+|finish", _DCP),
    _frames(READS, r"torch/distributed/checkpoint/\w+\.py$", r"read_data|_read_\w+|read_metadata", _DCP),
    # Libraries based on it.
    _frames(WRITES, r"deepspeed/runtime/engine\.py$", r"save_\w+|_save_\w*checkpoint", "DeepSpeed's "),
    _frames(READS, r"deepspeed/runtime/engine\.py$", r"_?load_\w*checkpoint", "DeepSpeed's "),
    _frames(WRITES, r"deepspeed/runtime/checkpoint_engine/", r"save", "DeepSpeed's "),
    _frames(READS, r"deepspeed/runtime/checkpoint_engine/", r"load", "DeepSpeed's "),
    _frames(WRITES, _LIGHTNING, r"save_checkpoint|dump_checkpoint|_save_\w*checkpoint", "Lightning's "),
    _frames(READS, _LIGHTNING, r"load_checkpoint|resume_start|_?restore\w*", "Lightning's "),
    _frames(WRITES, r"accelerate/(?:accelerator|checkpointing)\.py$", r"save|save_\w+", "Accelerate's "),
    _frames(READS, r"accelerate/(?:accelerator|checkpointing)\.py$", r"load_\w+", "Accelerate's "),
    _frames(WRITES, _MODELS, r"save_pretrained|save_model|_save|_save_\w+", ""),
    _frames(READS, _MODELS, r"from_pretrained|load_state_dict|_load_(?:pretrained_model|from_\w+|best_model)", ""),
    _frames(WRITES, r"megatron/core/dist_checkpointing/", r"save\w*|_save\w*", "Megatron's "),
    _frames(READS, r"megatron/core/dist_checkpointing/", r"load\w*|_load\w*", "Megatron's "),
    # TensorFlow and JAX.
    _frames(WRITES, _TENSORFLOW, r"save|_?write|save_and_return_nodes", "TensorFlow's "),
    _frames(READS, _TENSORFLOW, r"restore|read|load|load_partial|restore_or_initialize", "TensorFlow's "),
    _frames(WRITES, _KERAS, r"_?save_\w+", "Keras's "),
    _frames(READS, _KERAS, r"_?load_\w+", "Keras's "),
    _frames(WRITES, r"orbax/checkpoint/", r"_?save\w*|_write\w*", "Orbax's "),
    _frames(READS, r"orbax/checkpoint/", r"_?restore\w*|_?load\w*", "Orbax's "),
    _frames(WRITES, r"flax/training/checkpoints\.py$", r"save_checkpoint\w*", "Flax's "),
    _frames(READS, r"flax/training/checkpoints\.py$", r"restore_checkpoint", "Flax's "),
    # Without a framework.
    _frames(WRITES, r"safetensors/\w+\.py$", r"save\w*", "safetensors."),
    _frames(READS, r"safetensors/\w+\.py$", r"load\w*", "safetensors."),
    _frames(WRITES, r"joblib/numpy_pickle\.py$", r"dump", "joblib."),
    _frames(READS, r"joblib/numpy_pickle\.py$", r"load", "joblib."),
    _frames(WRITES, r"numpy/lib/_?npyio\w*\.py$", r"save(?:z|z_compressed|txt)?", "numpy."),
    # Compilations. The functions are those that compile, and not those that call what was compiled.
    _frames(COMPILES, r"torch/_dynamo/convert_frame\.py$", r"_?compile(?:_inner|_frame)?", "torch.compile"),
    _frames(COMPILES, r"torch/_inductor/compile_fx\.py$", r"\w*compile\w*", "torch.compile"),
    _frames(COMPILES, r"torch/_inductor/async_compile\.py$", r"wait|_wait_futures", "torch.compile"),
    _frames(COMPILES, r"torch/_inductor/cpp_builder\.py$", r"build|_?run_compile_cmd", "torch.compile"),
    _frames(
        COMPILES,
        r"torch/_inductor/runtime/triton_heuristics\.py$",
        r"_?precompile\w*|autotune_to_one_config|benchmark_all_configs|_?coordinate_descent_tuning",
        "torch.compile",
    ),
    _frames(COMPILES, r"torch/utils/cpp_extension\.py$", r"load|load_inline", "torch.utils.cpp_extension."),
    _frames(COMPILES, r"torch/utils/cpp_extension\.py$", r"_\w*(?:compile|build)\w*", "torch.utils.cpp_extension"),
    _frames(COMPILES, r"triton/compiler/compiler\.py$", r"compile", "Triton"),
    _frames(
        COMPILES, r"triton/runtime/(?:jit|autotuner|build)\.py$", r"_do_compile|_bench|_build|compile_\w+", "Triton"
    ),
    _frames(COMPILES, r"jax/_src/(?:compiler|dispatch)\.py$", r"backend_compile\w*", "JAX"),
    _frames(
        COMPILES,
        r"tensorflow/python/eager/(?:def_function|function|polymorphic_function/\w+)\.py$",
        r"_initialize|trace_function|_maybe_define_function|_create_(?:concrete|graph)_function",
        "tf.function",
    ),
    _frames(COMPILES, r"numba/\w+/(?:dispatcher|compiler\w*)\.py$", r"_?compile\w*", "Numba"),
)
"""The rules for frames. The first rule that matches a frame counts."""

LINE_RULES: tuple[LineRule, ...] = (LineRule(WRITES, re.compile(r"\b((?:cloud)?pickle|dill)\s*\.\s*dump\s*\(")),)
"""The rules for calls into C. The first group is the module."""

_COMPILERS = re.compile(
    r"(?:[\w.]+-)*(?:gcc|g\+\+|clang|clang\+\+|cc|c\+\+)(?:-\d+)?|cc1|cc1plus|lto1|collect2|as|ld|ld\.\w+"
    r"|nvcc|cicc|ptxas|fatbinary|cudafe\+\+|nvlink|hipcc|icpx?|ninja|make|cmake|rustc|cargo"
)
"""Pattern of programs that are compilers, and of those that start them."""


KNOWN_FRAMES = 4096
"""The number of frames whose rule is remembered: a thousand ranks are in the same frames, and there are some hundred
rules."""


@lru_cache(KNOWN_FRAMES)
def _work_by_frame(frame: Frame) -> LongWork | None:
    name = frame.name
    for rule in FRAME_RULES:
        if rule.function.fullmatch(name) and rule.file.search(frame.file):
            own = name if rule.call[-1:] in (".", " ", "") else ""
            return LongWork(rule.kind, rule.call + own)
    return None


def innermost_work(frames: Sequence[Frame]) -> int:
    """Return the index of the innermost frame that shows a checkpoint or a compilation. The number of frames if there
    is none."""
    return next((index for index, frame in enumerate(frames) if _work_by_frame(frame) is not None), len(frames))


def work_of_frames(frames: Sequence[Frame]) -> LongWork | None:
    """Return the checkpoint or compilation that the frames of a stack show, from the outermost frame that shows any:
    `Trainer.save_model` rather than `torch.save`. None if there is none."""
    return next((found for found in map(_work_by_frame, reversed(frames)) if found is not None), None)


def work_of_line(text: str) -> LongWork | None:
    """Return the long work that a source line of the user's own code does by a call into C, such as `pickle.dump`. None
    if there is none."""
    for rule in LINE_RULES:
        match = rule.line.search(text.partition("#")[0])
        if match is not None:
            return LongWork(rule.kind, match[1] + ".dump")
    return None


def work_of_program(command: str) -> LongWork | None:
    """Return the compilation that a child process does, from its program's name `command` according to the kernel. None
    if the program is no compiler."""
    return LongWork(COMPILES, command) if _COMPILERS.fullmatch(command) else None
