"""Checkpoints and compilations, which may be silent for longer: by frames of real libraries, and by recorded stacks."""

from __future__ import annotations

import time

import pytest
from recorded_stacks import rank_of_frames, recorded_rank, thread_of, work_of

from worldsize.wings.hangs.judgement.stacks.collective_waits import may_wait_for_children, wait_of
from worldsize.wings.hangs.judgement.stacks.collective_waits import work_of as long_work_of
from worldsize.wings.hangs.judgement.stacks.long_work import (
    COMPILES,
    FRAME_RULES,
    READS,
    WRITES,
    innermost_work,
    work_of_program,
)
from worldsize.wings.hangs.judgement.stacks.look_history import LookSummary
from worldsize.wings.hangs.judgement.stacks.rank_stacks import RankStacks
from worldsize.wings.hangs.judgement.stacks.stack_witness import StackJudgement, judge_stacks
from worldsize.wings.hangs.judgement.watch import LONG_WORK_FACTOR

LIMIT, GAP = 60.0, 2.0
SITE = "/env/lib/python3.12/site-packages/"
LIB = "/usr/lib/python3.12/"
C10D = SITE + "torch/distributed/distributed_c10d.py"
DYNAMO = ("_compile", SITE + "torch/_dynamo/convert_frame.py", 2102)
USER = ("Trainer.save_checkpoint", "/job/train.py", 41)
ALL_REDUCE = (("all_reduce", C10D, 3252), ("main", "/job/train.py", 50))
TORCH_SAVE = (("save", SITE + "torch/serialization.py", 1002), USER)

LINES = [
    # what, call, a frame, and the function of a near miss in the same file
    (WRITES, "torch.save", "torch/serialization.py", "_save", "_is_zipfile"),
    (READS, "torch.load", "torch/serialization.py", "_legacy_load", "default_restore_location"),
    (WRITES, "torch.distributed.checkpoint.save", "torch/distributed/checkpoint/state_dict_saver.py", "async_save", ""),
    (READS, "torch.distributed.checkpoint.load", "torch/distributed/checkpoint/state_dict_loader.py", "load", ""),
    (
        WRITES,
        "torch.distributed.checkpoint._write_files_from_queue",
        "torch/distributed/checkpoint/filesystem.py",
        "_write_files_from_queue",
        "_generate_uuid",
    ),
    (
        READS,
        "torch.distributed.checkpoint.read_data",
        "torch/distributed/checkpoint/_fsspec_filesystem.py",
        "read_data",
        "reset",
    ),
    (WRITES, "DeepSpeed's save_checkpoint", "deepspeed/runtime/engine.py", "save_checkpoint", "step"),
    (READS, "DeepSpeed's _load_zero_checkpoint", "deepspeed/runtime/engine.py", "_load_zero_checkpoint", "backward"),
    (WRITES, "DeepSpeed's save", "deepspeed/runtime/checkpoint_engine/fast_checkpoint_engine.py", "save", "wait"),
    (READS, "DeepSpeed's load", "deepspeed/runtime/checkpoint_engine/torch_checkpoint_engine.py", "load", "wait"),
    (
        WRITES,
        "Lightning's dump_checkpoint",
        "lightning/pytorch/trainer/connectors/checkpoint_connector.py",
        "dump_checkpoint",
        "resume_end",
    ),
    (
        WRITES,
        "Lightning's _save_topk_checkpoint",
        "pytorch_lightning/callbacks/model_checkpoint.py",
        "_save_topk_checkpoint",
        "on_train_batch_end",
    ),
    (READS, "Lightning's load_checkpoint", "lightning_fabric/plugins/io/torch_io.py", "load_checkpoint", "teardown"),
    (WRITES, "Accelerate's save_state", "accelerate/accelerator.py", "save_state", "backward"),
    (READS, "Accelerate's load_accelerator_state", "accelerate/checkpointing.py", "load_accelerator_state", "x"),
    (WRITES, "save_pretrained", "transformers/modeling_utils.py", "save_pretrained", "forward"),
    (WRITES, "_save_checkpoint", "transformers/trainer.py", "_save_checkpoint", "_maybe_log_save_evaluate"),
    (READS, "from_pretrained", "diffusers/models/modeling_utils.py", "from_pretrained", "to"),
    (WRITES, "Megatron's save", "megatron/core/dist_checkpointing/serialization.py", "save", "get_default_strategy"),
    (READS, "Megatron's load", "megatron/core/dist_checkpointing/serialization.py", "load", "remove_sharded_tensors"),
    (WRITES, "TensorFlow's save", "tensorflow/python/checkpoint/checkpoint.py", "save", "save_counter"),
    (READS, "TensorFlow's restore", "tensorflow/python/training/saver.py", "restore", "last_checkpoints"),
    (WRITES, "Keras's save_model", "keras/src/saving/saving_api.py", "save_model", "get_custom_objects"),
    (READS, "Keras's load_weights_only", "keras/src/saving/saving_lib.py", "load_weights_only", "_walk_saveable"),
    (WRITES, "Orbax's save", "orbax/checkpoint/_src/checkpointers/checkpointer.py", "save", "close"),
    (READS, "Orbax's restore", "orbax/checkpoint/checkpoint_manager.py", "restore", "all_steps"),
    (
        WRITES,
        "Flax's save_checkpoint_multiprocess",
        "flax/training/checkpoints.py",
        "save_checkpoint_multiprocess",
        "x",
    ),
    (READS, "Flax's restore_checkpoint", "flax/training/checkpoints.py", "restore_checkpoint", "latest_checkpoint"),
    (WRITES, "safetensors.save_file", "safetensors/torch.py", "save_file", "_find_shared_tensors"),
    (READS, "safetensors.load_file", "safetensors/numpy.py", "load_file", "_getdtype"),
    (WRITES, "joblib.dump", "joblib/numpy_pickle.py", "dump", "write_array"),
    (READS, "joblib.load", "joblib/numpy_pickle.py", "load", "read_array"),
    (WRITES, "numpy.savez_compressed", "numpy/lib/_npyio_impl.py", "savez_compressed", "load"),
    (COMPILES, "torch.compile", "torch/_dynamo/convert_frame.py", "compile_frame", "get_compile_id"),
    (COMPILES, "torch.compile", "torch/_inductor/compile_fx.py", "fx_codegen_and_compile", "run"),
    (COMPILES, "torch.compile", "torch/_inductor/async_compile.py", "_wait_futures", "warm_pool"),
    (COMPILES, "torch.compile", "torch/_inductor/cpp_builder.py", "run_compile_cmd", "get_compiler_version_info"),
    (COMPILES, "torch.compile", "torch/_inductor/runtime/triton_heuristics.py", "autotune_to_one_config", "run"),
    (COMPILES, "torch.utils.cpp_extension.load_inline", "torch/utils/cpp_extension.py", "load_inline", "include_paths"),
    (
        COMPILES,
        "torch.utils.cpp_extension",
        "torch/utils/cpp_extension.py",
        "_run_ninja_build",
        "check_compiler_is_gcc",
    ),
    (COMPILES, "Triton", "triton/compiler/compiler.py", "compile", "_init_handles"),
    (COMPILES, "Triton", "triton/runtime/jit.py", "_do_compile", "run"),
    (COMPILES, "JAX", "jax/_src/compiler.py", "backend_compile_and_load", "_compile_and_share_module"),
    (
        COMPILES,
        "tf.function",
        "tensorflow/python/eager/polymorphic_function/tracing_compilation.py",
        "trace_function",
        "call_function",
    ),
    (COMPILES, "Numba", "numba/core/dispatcher.py", "_compile_for_args", "typeof_pyval"),
]


def judged(
    *ranks: RankStacks, after: dict[int, RankStacks] | None = None, at: float = 0.0, **fields: object
) -> StackJudgement:
    """Both samples alike, but for the processes of `after`, by pid."""
    before = [each._replace(time=1000.0 + at) for each in ranks]
    later = [(after or {}).get(each.pid, each)._replace(time=1000.0 + at + GAP) for each in ranks]
    size = len({each.rank for each in ranks})
    return judge_stacks(before, later, size, LIMIT, **fields)  # type: ignore[arg-type]


def named(judgement: StackJudgement) -> list[tuple[str | None, tuple[int, ...]]]:
    assert not judgement.alive
    return [(each.kind, each.ranks) for each in judgement.findings if each.kind]


@pytest.mark.parametrize(("what", "call", "file", "function", "miss"), LINES)
def test_frames_of_libraries(what: str, call: str, file: str, function: str, miss: str) -> None:
    assert long_work_of(thread_of((function, SITE + file, 1), USER)) == (what, call)
    assert not miss or long_work_of(thread_of((miss, SITE + file, 1), USER)) is None
    assert long_work_of(thread_of((function, SITE + "other/code.py", 1), USER)) is None, "the name is not enough"
    assert long_work_of(thread_of((function, "/job/" + file.rpartition("/")[2], 1), USER)) is None


def test_each_rule_has_a_line() -> None:
    lines = [(SITE + file, function) for _, _, file, function, _ in LINES]
    without = [
        (rule.file.pattern, rule.function.pattern)
        for rule in FRAME_RULES
        if not any(rule.file.search(file) and rule.function.fullmatch(function) for file, function in lines)
    ]
    assert without == []


@pytest.mark.parametrize(
    ("recording", "what", "call", "kind"),
    [
        ("torch_save", WRITES, "torch.save", "io"),
        ("dcp_save_writes", WRITES, "torch.distributed.checkpoint.save", "io"),
        ("torch_compile", COMPILES, "torch.compile", "child"),
        ("compile_in_backward", COMPILES, "torch.compile", "lock"),
    ],
)
def test_recorded_work(recording: str, what: str, call: str, kind: str) -> None:
    thread = recorded_rank(recording).main_thread
    assert thread is not None
    assert long_work_of(thread) == (what, call)
    assert wait_of(thread).kind == kind


@pytest.mark.parametrize(
    "recording", ["dcp_save_waits", "all_gather_object", "backward", "loader", "sleep", "construction", "recv"]
)
def test_recorded_waits_are_no_work(recording: str) -> None:
    thread = recorded_rank(recording).main_thread
    assert thread is not None and long_work_of(thread) is None


def test_where_what_torch_compile_has_written_was_called() -> None:
    thread = recorded_rank("compile_in_backward").main_thread
    assert thread is not None
    frame = wait_of(thread).user_frame
    assert frame is not None and (frame.file, frame.line) == ("/job/backward.py", 17)


def test_children_may_compile_for_it() -> None:
    assert [
        name
        for name in ("compile_in_backward", "torch_compile", "loader", "torch_save", "sleep", "backward")
        if may_wait_for_children(recorded_rank(name))
    ] == ["compile_in_backward", "torch_compile", "loader"]
    compiles = recorded_rank("compile_in_backward", 0)
    child = rank_of_frames(0, parent=100, pid=7, source="proc", work=(work_of(0),), command="cc1plus")
    ranks = (compiles, child, rank_of_frames(1, *ALL_REDUCE))
    judgement = judged(*ranks, after={7: child._replace(work=(work_of(190),))}, silent=4000.0)
    assert (judgement.alive, judgement.reason) == (
        True,
        "rank 0: a child (cc1plus) computes at backward.py:17 in main",
    )
    assert not judged(*ranks, silent=4000.0).alive


def test_names_of_the_users_own_are_none() -> None:
    waits = thread_of(("wait", LIB + "threading.py", 331), USER, ("save", "/job/torch/serialization.py", 3))
    assert long_work_of(waits) is None
    own = thread_of(("acquire", LIB + "threading.py", 1), ("__reduce__", "/job/train.py", 9), *TORCH_SAVE)
    assert long_work_of(own) is None, "the user's own code, which is called within"


def test_who_waits_for_others_within_a_checkpoint_is_at_none() -> None:
    saver = ("_save_state_dict", SITE + "torch/distributed/checkpoint/state_dict_saver.py", 513)
    wrapper = ("_DistWrapper.all_reduce", SITE + "torch/distributed/checkpoint/utils.py", 245)
    waits = thread_of(("gather_object", C10D, 3631), wrapper, saver, USER)
    assert wait_of(waits)[:2] == ("gather_object", "collective")
    assert long_work_of(waits) is None
    barrier = ("sync_global_processes", SITE + "orbax/checkpoint/_src/multihost/multihost.py", 270)
    save = ("Checkpointer.save", SITE + "orbax/checkpoint/_src/checkpointers/checkpointer.py", 1)
    assert long_work_of(thread_of(barrier, save, USER)) is None
    assert wait_of(thread_of(barrier, save, USER)).kind == "collective"


def test_a_call_that_has_come_to_compile_waits_for_no_other_rank() -> None:
    runs = ("communicate", LIB + "subprocess.py", 1209)
    backward = ("_engine_run_backward", SITE + "torch/autograd/graph.py", 824)
    compiles = thread_of(runs, ("compile_fx", SITE + "torch/_inductor/compile_fx.py", 1), backward, USER)
    assert (wait_of(compiles).kind, long_work_of(compiles)) == ("child", (COMPILES, "torch.compile"))
    runs_what_was_compiled = thread_of(("__call__", SITE + "torch/_inductor/output_code.py", 1), backward, USER)
    assert wait_of(runs_what_was_compiled).kind == "collective"
    asks_others = thread_of(("all_gather_object", C10D, 1), DYNAMO, USER)
    assert (wait_of(asks_others).kind, long_work_of(asks_others)) == ("collective", None)


def test_calls_of_c_show_in_the_users_line() -> None:
    for text, call in (("pickle.dump(state, file)", "pickle.dump"), ("cloudpickle.dump(x, f)", "cloudpickle.dump")):
        assert long_work_of(thread_of((*USER, text))) == (WRITES, call)
    for text in ("pickle.load(file)", "pickle.dumps(state)", "x = 1  # pickle.dump(x)", ""):
        assert long_work_of(thread_of((*USER, text))) is None, text
    assert long_work_of(thread_of()) is None


def test_programs_that_compile() -> None:
    for program in (
        "nvcc",
        "cicc",
        "ptxas",
        "ninja",
        "cc1plus",
        "g++",
        "x86_64-linux-gnu-g++-12",
        "clang-17",
        "ld.lld",
    ):
        assert work_of_program(program) == (COMPILES, program)
    for program in ("python3", "tokenize", "sh", "accelerate", "asd", "builder", "makefile", ""):
        assert work_of_program(program) is None, program


def test_a_checkpoint_is_called_stuck_only_after_a_longer_time() -> None:
    ranks = [recorded_rank("torch_save"), *(rank_of_frames(rank, *ALL_REDUCE) for rank in (1, 2))]
    former: list[LookSummary] = []
    found = []
    for moment in (0, 60, 180, 299, 300):
        judgement = judged(*ranks, at=moment, former=former)
        former.append(judgement.summary)
        found.append(judgement.alive)
        if judgement.alive:
            assert judgement.reason == "rank 0 writes a checkpoint (torch.save at saves.py:9 in checkpoint)"
    assert found == [True, True, True, True, False]
    assert named(judgement) == [("H1", (0,))]


def test_the_silence_may_be_known() -> None:
    ranks = [rank_of_frames(0, *TORCH_SAVE), rank_of_frames(1, *ALL_REDUCE)]
    assert judged(*ranks, silent=LONG_WORK_FACTOR * LIMIT - 1).alive
    assert named(judged(*ranks, silent=LONG_WORK_FACTOR * LIMIT)) == [("H1", (0,))]


def test_one_rank_of_several_writes_its_shard() -> None:
    ranks = [
        recorded_rank("dcp_save_waits", 0),
        recorded_rank("dcp_save_writes", 1),
        recorded_rank("dcp_save_waits", 2),
    ]
    judgement = judged(*ranks)
    assert (judgement.alive, judgement.reason) == (
        True,
        "rank 1 writes a checkpoint (torch.distributed.checkpoint.save at shards.py:17 in save)",
    )
    (finding,) = judged(*ranks, silent=400.0).findings
    assert (finding.kind, finding.ranks, finding.call) == ("H1", (1,), "gather_object")


def test_all_ranks_in_the_call_of_a_checkpoint_are_stuck_at_once() -> None:
    ranks = [recorded_rank("dcp_save_waits", rank) for rank in (0, 1)]
    assert judged(*ranks).reason == "all remaining ranks wait in gather_object at shards.py:17 in save"
    assert named(judged(*ranks, rank_of_frames(2, ("acquire", LIB + "threading.py", 1), USER))) == [("H1", (2,))]


def test_a_thread_or_a_child_that_the_rank_waits_for() -> None:
    other = rank_of_frames(1, *ALL_REDUCE)
    joins = recorded_rank("torch_save_in_thread")
    assert judged(joins, other).reason == "rank 0 writes a checkpoint (torch.save at saves.py:15 in in_thread)"
    sleeps = joins._replace(threads=(thread_of((*USER, "time.sleep(1000)")), *joins.threads[1:]))
    assert named(judged(sleeps, other)) == [("H1", (0,))], "it does not wait for its thread"
    waits = rank_of_frames(0, ("wait", LIB + "subprocess.py", 1264), USER)
    child = rank_of_frames(0, parent=100, pid=7, source="proc", command="nvcc")
    assert judged(waits, child, other).reason == "rank 0 compiles (nvcc at train.py:41 in Trainer.save_checkpoint)"
    assert named(judged(waits, child._replace(command="tokenize"), other)) == [("H1", (0,))]
    saves = rank_of_frames(0, *TORCH_SAVE, parent=100, pid=7)
    assert judged(waits, saves, other).alive
    forked = ("_bootstrap", LIB + "multiprocessing/process.py", 314)
    idle = rank_of_frames(0, ("recv", LIB + "multiprocessing/connection.py", 1), forked, *TORCH_SAVE, parent=100, pid=7)
    assert named(judged(waits, idle, other)) == [("H1", (0,))], "it was forked there"


@pytest.mark.parametrize(
    "frames",
    [
        (("wait", SITE + "torch/utils/file_baton.py", 49), ("load", SITE + "torch/utils/cpp_extension.py", 1818), USER),
        (
            ("acquire", SITE + "filelock/_api.py", 9),
            ("from_pretrained", SITE + "transformers/modeling_utils.py", 1),
            USER,
        ),
    ],
)
def test_who_waits_for_another_to_compile_is_not_at_work(frames: tuple[tuple[str, str, int], ...]) -> None:
    assert named(judged(rank_of_frames(0, *frames), rank_of_frames(1, *ALL_REDUCE))) == [("H1", (0,))]


def test_a_rank_that_is_stopped_is_not_at_work() -> None:
    stopped = rank_of_frames(0, *TORCH_SAVE, state="T")
    assert named(judged(stopped, rank_of_frames(1, *ALL_REDUCE))) == [("H1", (0,))]


def test_what_wakes_up_in_a_checkpoint_is_given_as_long() -> None:
    wakes = rank_of_frames(0, *TORCH_SAVE, waits=(5, 5), work=(work_of(0),))
    later = {100: wakes._replace(waits=(50, 50))}
    former: list[LookSummary] = []
    found = []
    for moment in (0, 60, 180, 300):
        judgement = judged(wakes, rank_of_frames(1, *ALL_REDUCE), after=later, at=moment, former=former)
        former.append(judgement.summary)
        found.append(judgement.alive)
    assert found == [True, True, True, False]


def test_no_name_takes_long_to_look_at() -> None:
    names = ["compile" * 57, "_save_" * 66, "a" * 400, "load_" * 80, "_" * 400]
    began = time.process_time()
    for name in names:
        for file in (SITE + "lightning/" + "x/" * 150 + "a.py", "torch/" + "checkpoint/" * 30, "lightning/" * 40):
            innermost_work(thread_of(*[(name, file, 1)] * 256).frames)
        work_of_program(name)
        work_of_program("a-" * 32)
    assert time.process_time() - began < 2.0
