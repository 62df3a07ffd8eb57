"""Rule for scripts that ignore other ranks, so that each rank would train by itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from worldsize.state.check_rows import BAD, WARNING
from worldsize.wings.checks.script.reading.arguments import NAMESPACES
from worldsize.wings.checks.script.reading.calls import argument, literal
from worldsize.wings.checks.script.reading.program import ALONE, Program
from worldsize.wings.checks.script.reading.words import plain_words
from worldsize.wings.checks.script.request import ScriptFinding

ID = "script.not_distributed"

_DISTRIBUTED = (
    r"(?i:distribute|^distribution$|set_distribution|^ddp|ddp$|_ddp|fsdp|horovod|hvd|deepspeed|^accelerate$|lightning|rank|world_?size|slurm|ompi_|^pmi"
    r"|mpi4py|^mpi$|comm_world|pmap|shard|mesh|strategy|tf_config|process_(index|count|id)|^ray$|torchrun|^nccl|^gloo"
    r"|hostname|getpid|uname$|subprocess|^spawn$|^fork|start_processes|launch|kvstore|^xla$|torch_xla|^tpu|task_?id|array_?id"
    r"|node_?(id|name)|proc_?id|cluster)|^(Accelerator|Process|Trainer|Seq2SeqTrainer|TrainingArguments)$"
)
_DYNAMIC = ("exec", "eval", "__import__", "import_module", "instantiate", "run_path", "run_module", "system", "popen")
_OTHER_MODE = (
    r"(--?(e|eval\w*|test|test[-_]only|only[-_]\w+|predict\w*|infer\w*|valid\w*|generate|export|mode|task|stage|phase)"
    r"|eval\w*|test|predict|infer\w*|generate|export)(=.*)?$"
)
_MODE_WORD = r"(?i)eval|infer|predict|mode|only|^train|do_train|skip|^test$|pretrain"
_HARMLESS = (
    r"(CUDA|NVIDIA|OMP|MKL|HF|TRANSFORMERS|WANDB|MLFLOW|DATA|PYTHON|TF_CPP|KMP|TORCH)_?\w*|HOME|USER|PATH|TMPDIR"
    r"|\w+_(DIR|PATH|ROOT|KEY|TOKEN|URL|URI|FOLDER)|AZUREML_\w*(DATA|OUTPUT|INPUT)\w*|WORLDSIZE_(INPUT|OUTPUT)_\w+"
)
_RANK_WORD = r"\$.*(RANK|PROC|TASK|NODE|ID|HOST|LOCAL|COMM)|[`]|\$\("


def separate_trainings(program: Program) -> Iterator[ScriptFinding]:
    """Yield a ScriptFinding for a training script that has no sign of distribution, if several ranks are requested:
    each rank would train by itself."""
    if (
        program.world_size < 2
        or program.request.data_parallel
        or program.command.starter in ("accelerate", "deepspeed")
    ):
        return
    if _may_be_told_apart(program):
        return
    found = _training(program)
    if found is None or _is_optional(program, found[0]):
        return
    call, framework = found
    what = f"{program.world_size} separate trainings would run: nothing here divides the work among the ranks"
    hint = _hint(framework)
    if program.flow.calls("DataParallel"):
        what = f"{what}; DataParallel uses the GPUs of one process only"
    verdict = WARNING if program.request.distribution in ("", "none", "mpi") else BAD
    yield program.finding(ID, call, what, verdict, hint)


def _hint(framework: str) -> str:
    if framework == "torch":
        return (
            "`--data-parallel` makes them one training; or use DistributedDataParallel with `distribution: "
            "type: pytorch`"
        )
    if framework == "jax":
        return (
            "call jax.distributed.initialize() and shard the batch, with `distribution: type: jax`; or ask for one rank"
        )
    return "use tf.distribute.MultiWorkerMirroredStrategy with `distribution: type: tensorflow`; or ask for one rank"


def _may_be_told_apart(program: Program) -> bool:
    """Return whether anything in the script might distinguish the ranks, or is not known here."""
    if program.command.starter not in ("python", "torchrun") or program.request.distribution == "ray":
        return True
    if program.brands or program.sources.foreign - ALONE:
        return True
    if any(re.match(_OTHER_MODE, word) or re.search(_RANK_WORD, word) for word in program.command.words):
        return True
    if any(name is None or not re.fullmatch(_HARMLESS, name) for name in program.environment_reads()):
        return True
    if any(isinstance(call.func, ast.Name) or name != "eval" for name in _DYNAMIC for call in program.flow.calls(name)):
        return True
    own = {"Trainer"} if "Trainer" in program.index.classes and "transformers" not in program.sources.foreign else set()
    return any(re.search(_DISTRIBUTED, word) for word in _all_words(program) if word not in own)


def _all_words(program: Program) -> Iterator[str]:
    index = program.index
    yield from index.named
    yield from index.references
    yield from index.functions
    yield from index.classes
    yield from index.keywords
    for name in index.imported:
        yield from name.split(".")
    yield from (str(node.value) for node in index.strings if len(node.value) < 80)  # type: ignore[arg-type]


def _training(program: Program) -> tuple[ast.Call, str] | None:
    """Return the call which shows that the script trains, and the framework ("torch", "tensorflow" or "jax"); None if
    there is none."""
    flow = program.flow
    if program.imports(("torch",)) and flow.calls("step") and _optimizer(program):
        return next(((call, "torch") for call in flow.calls("backward") if isinstance(call.func, ast.Attribute)), None)
    if program.imports(("tensorflow", "keras", "tf_keras")):
        compiled = [call for call in flow.calls("compile") if argument(call, "loss") or argument(call, "optimizer")]
        calls = flow.calls("fit", "fit_generator") if compiled else []
        calls = calls or (flow.calls("apply_gradients") if flow.calls("GradientTape") else [])
        return next(((call, "tensorflow") for call in calls), None)
    if program.imports(("jax",)) and flow.calls("grad", "value_and_grad"):
        return next(((call, "jax") for call in flow.calls("apply_updates", "apply_gradients")), None)
    return None


def _optimizer(program: Program) -> bool:
    calls = [call for call in program.flow.calls("parameters") if isinstance(call.func, ast.Attribute)]
    return bool(calls) and program.imports(("torch.optim", "torch"))


def _is_optional(program: Program, call: ast.Call) -> bool:
    """Return whether an option of the script might choose something other than training, so that `call` is not
    executed."""
    return any(_is_undecided(program, test) for test in _tests_on_the_way(program, call))


def _tests_on_the_way(program: Program, call: ast.AST) -> list[ast.AST]:
    tests: list[ast.AST] = []
    seen: set[ast.AST] = set()
    waiting = [call]
    while waiting and len(seen) < 100:
        node = waiting.pop()
        tests += program.flow.conditions(node)
        scope = program.index.scope_of(node)
        if not isinstance(scope, ast.Module) and scope not in seen:
            seen.add(scope)
            waiting += program.flow.references(scope)
    return tests


def _chooses_mode(node: ast.AST) -> bool:
    """Return whether the node of the script's syntax tree is a comparison that chooses a mode, such as `args.task ==
    "train"`."""
    if not isinstance(node, ast.Compare):
        return False
    texts = [str(literal(part)) for part in (node.left, *node.comparators) if isinstance(part, ast.Constant)]
    options = [part for part in (node.left, *node.comparators) if isinstance(part, ast.Attribute)]
    return bool(options) and any(re.search(_MODE_WORD, word) for word in texts)


def _is_undecided(program: Program, test: ast.AST) -> bool:
    """Return whether a test chooses the mode of the script, and the command does not determine its result."""
    for node in ast.walk(test):
        if _chooses_mode(node):
            return True
        option = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in NAMESPACES
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if (option or name.isupper() or name == "mode") and re.search(_MODE_WORD, name):
            value = program.flow.arguments.value(name)
            if not (isinstance(value, ast.Constant) and value.value is False and not name.startswith(("train", "do_"))):
                return True
    return isinstance(test, ast.Lambda | ast.match_case) or "sys.argv" in " ".join(plain_words(test))
