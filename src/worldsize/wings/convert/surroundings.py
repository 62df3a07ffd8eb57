"""Changes to the code around a training that differs on many ranks: files, devices, progress bars, downloads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libcst as cst

from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.syntax import argument, calls_below, code, last_name, nodes_below

MAIN_ONLY = (
    "torch.save", "save_pretrained", "savefig", "SummaryWriter", "makedirs", "mkdir", "rmtree", "os.remove",
    "os.rename",
    "os.symlink", "np.save", "np.savez", "to_csv", "save_image", "shutil.copyfile", "shutil.copy",
    "shutil.move", "np.savetxt", "write_text", "write_bytes", "torch.jit.save", "torch.onnx.export", "FileHandler",
    "plt.show", "imsave", "imwrite", "os.unlink", "os.replace", "np.savez_compressed", "to_json", "to_pickle",
)  # fmt: skip
_CLOCKS = (
    "time.time", "time.monotonic", "time.perf_counter", "time.process_time", "datetime.datetime.now", "datetime.now",
)  # fmt: skip
_DRAWN = ("rand", "randn", "randint", "bernoulli")
_FILES = ("exists", "isfile", "is_file")
_VISIBLE = ('os.environ["CUDA_VISIBLE_DEVICES"]', "os.environ['CUDA_VISIBLE_DEVICES']")
_PROCESSES = "every rank has its own GPU: this choice of GPUs is left out"

Change = tuple[cst.CSTNode, Callable[[Any], Any]]


class Surroundings:
    """The changes to the code around a training (files, devices, progress bars, downloads). `changes` are pairs of a
    node and the function that changes it. `remarks` are (file, line, text)."""

    def __init__(self, program: Program, module: str) -> None:
        self._module = module
        self._loading = _loading(program)
        calls = [call for file in program.files for call in calls_below(file.module)]
        self._writes = any(code(call.func) == "open" and _is_written(call) for call in calls)
        self.changes: list[Change] = []
        self.remarks: list[tuple[SourceFile, int, str]] = []
        for file in program.files:
            has_parallel = any(last_name(call.func) == "DataParallel" for call in calls_below(file.module))
            for node in nodes_below(file.module):
                if isinstance(node, cst.Call):
                    self._change_call(file, node)
                elif isinstance(node, cst.Attribute) and node.attr.value == "module" and has_parallel:
                    self.changes.append((node, lambda attribute: attribute.value))
                elif isinstance(node, cst.If):
                    self._change_question(file, node)
                else:
                    self._change_device(file, node)

    def _change_call(self, file: SourceFile, node: cst.Call) -> None:
        name, text = last_name(node.func), file.full_name(node.func)
        if name == "DataParallel" and node.args:
            self.changes.append((node, lambda call: call.args[0].value))
        elif name in ("tqdm", "trange") and argument(node, "disable") is None:
            self.changes.append((node, lambda call: with_argument(call, "disable", f"{self._module}.RANK != 0")))
        elif text == "open" and (_is_written(node) or (self._writes and not self._is_in_data(file, node))):
            self._replace(node.func, f"{self._module}.open_file")
        elif name in MAIN_ONLY or text.replace("numpy.", "np.") in MAIN_ONLY or _opens_to_write(node):
            self.changes.append((node.func, lambda function: wrapped(function, f"{self._module}.main_only")))
        elif text == "torch.load" and not self._is_in_data(file, node):
            self._replace(node.func, f"{self._module}.load")
        elif _text(node, "download") == "True":
            self.changes.append((node, lambda call: wrapped(call, f"{self._module}.main_first", before="lambda: ")))
        elif name in ("cuda", "set_device") and len(node.args) == 1 and _is_number(node.args[0].value):
            self._replace(node.args[0].value, f"{self._module}.LOCAL_RANK")
        elif text == "torch.device" and len(node.args) == 2 and code(node.args[0].value).strip("\"'") == "cuda":
            self._replace(node.args[1].value, f"{self._module}.LOCAL_RANK")

    def _change_device(self, file: SourceFile, node: Any) -> None:
        local = f'f"cuda:{{{self._module}.LOCAL_RANK}}"'
        if (
            (isinstance(node, cst.SimpleString) and node.raw_value.startswith("cuda:") and node.raw_value[5:].isdigit())
            or (isinstance(node, cst.FormattedString) and _is_device(node))
            or (
                isinstance(node, cst.BinaryOperation)
                and code(node.left).strip("\"'") in ("cuda:", "cuda:%d", "cuda:%s")
            )
        ):
            self._replace(node, local)
        elif isinstance(node, cst.Assign) and code(node.targets[0].target) in _VISIBLE:
            self.remarks.append((file, file.line(node), _PROCESSES))
            self.changes.append((node, lambda _: cst.Pass()))

    def _change_question(self, file: SourceFile, node: cst.If) -> None:
        """Change the test of an `if` whether a file exists, before the file is loaded by `torch.load`, so that rank 0's
        result counts on all ranks."""
        if not any(file.full_name(call.func) == "torch.load" for call in calls_below(node.body)):
            return
        for call in calls_below(node.test):
            if last_name(call.func) in ("exists", "isfile", "is_file"):
                self.changes.append((call, lambda call: wrapped(call, f"{self._module}.as_on_main")))

    def _is_in_data(self, file: SourceFile, node: cst.CSTNode) -> bool:
        """Return whether a node is in a function that loads samples of a data set. Such a function runs at different
        times on each rank."""
        return file.function_around(node) in self._loading

    def _replace(self, node: cst.CSTNode, text: str) -> None:
        self.changes.append((node, lambda _: cst.parse_expression(text)))


def own_answers(program: Program, file: SourceFile, node: cst.If | cst.While) -> Iterator[cst.BaseExpression]:
    """Yield the parts of the condition of an `if` or `while` whose result may differ between ranks: those that depend
    on a clock, on a number that torch draws, or on the existence of a file."""
    pending: list[cst.BaseExpression] = [node.test]
    while pending:
        part = pending.pop()
        if isinstance(part, cst.BooleanOperation):
            pending += [part.right, part.left]
        elif any(
            _is_own(file, call) for value in (part, *_given_in(program, file, part)) for call in calls_below(value)
        ):
            yield part


def _given_in(program: Program, file: SourceFile, value: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the expressions that are assigned, in the same function, to the names that occur in the expression
    `value`."""
    inner = file.function_around(value)
    for name in nodes_below(value):
        if isinstance(name, cst.Name):
            yield from (each for each in program.values_of(file, name) if file.function_around(each) is inner)


def _is_own(file: SourceFile, call: cst.Call) -> bool:
    name, text = last_name(call.func), file.full_name(call.func)
    return name in _FILES or text in _CLOCKS or (name in _DRAWN and text.startswith("torch."))


def _loading(program: Program) -> set[cst.CSTNode]:
    """Return the syntax nodes of the functions of the training that load samples (`__getitem__`, `__iter__`,
    `__next__`), and of those that they call."""
    starts = [function for name in ("__getitem__", "__iter__", "__next__") for function in program.named(name)]
    found: set[cst.CSTNode] = set()
    while starts:
        function = starts.pop()
        if function.node not in found:
            found.add(function.node)
            for call in calls_below(function.node):
                starts += program.called(function.file, call)
    return found


def wrapped(value: cst.CSTNode, function: str, others: Sequence[str] = (), before: str = "") -> cst.BaseExpression:
    return cst.parse_expression(f"{function}({before}{', '.join([code(value), *others])})")


def with_argument(call: cst.Call, name: str, value: str) -> cst.Call:
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    args = [arg if isinstance(arg.comma, cst.Comma) else arg.with_changes(comma=comma) for arg in call.args]
    equal = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
    return call.with_changes(args=[*args, cst.Arg(cst.parse_expression(value), cst.Name(name), equal=equal)])


def _is_number(value: cst.CSTNode) -> bool:
    """Return whether an expression is the number of a GPU, according to its form: `0`, `args.gpu`, `gpu_id`."""
    return isinstance(value, cst.Integer) or "gpu" in last_name(value).lower()


def _is_device(node: cst.FormattedString) -> bool:
    first = node.parts[0] if node.parts else None
    return isinstance(first, cst.FormattedStringText) and first.value == "cuda:" and len(node.parts) == 2


def _text(call: cst.Call, name: str, place: int | None = None) -> str:
    value = argument(call, name, place)
    return "" if value is None else code(value)


def _opens_to_write(call: cst.Call) -> bool:
    """Return whether a call opens a file for writing: `path.open("w")`, `gzip.open(path, "wb")`,
    `logging.basicConfig(filename=path)`."""
    if last_name(call.func) == "basicConfig":
        return argument(call, "filename") is not None
    is_open = isinstance(call.func, cst.Attribute) and last_name(call.func) == "open"
    modes = [argument(call, "mode", place) for place in (0, 1)]
    texts = [set(code(mode).strip("\"'")) for mode in modes if isinstance(mode, cst.SimpleString)]
    return is_open and any(text & set("wxa+") and text <= set("wxa+bt") for text in texts)


def _is_written(call: cst.Call) -> bool:
    return bool(set(_text(call, "mode", 1).strip("\"'")) & set("wxa+"))
