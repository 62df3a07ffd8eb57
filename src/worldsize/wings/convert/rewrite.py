"""Rewriter that turns a training for one process into one for all ranks that a launcher starts. It keeps the
formatting."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import libcst as cst

from worldsize.wings.convert.batches import BatchSources
from worldsize.wings.convert.doubts import Doubts
from worldsize.wings.convert.figures import Figures
from worldsize.wings.convert.kinds import MEAN, MIXED, SUM, Kind, is_same
from worldsize.wings.convert.loss_kinds import LossKinds
from worldsize.wings.convert.marks import commented, statement_at
from worldsize.wings.convert.optimizers import Optimizer, find_optimizers
from worldsize.wings.convert.program import Program, SourceFile
from worldsize.wings.convert.refusals import find_refusals
from worldsize.wings.convert.surroundings import Surroundings, own_answers, wrapped
from worldsize.wings.convert.syntax import calls_below, loss_of, nodes_below

DISTRIBUTED = (
    "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "init_process_group", "Accelerator",
    "DistributedSampler", "DistributedOptimizer",
)  # fmt: skip
_NO_MEAN = "each rank has its part of the batch there, and the ranks' mean differs from the whole batch's value"
_NOT_SEEN = "it is unclear whether this loss is a mean over the batch; if not, the ranks train a different objective"
_BOTH = "this loss is a sum over a batch, another one is a mean: make both of them means"
_NO_MODEL = "whose model is unknown here: pass it as the second argument, for its BatchNorm"


class Remark(NamedTuple):
    path: str
    line: int
    text: str


class Conversion(NamedTuple):
    """The result of a conversion. `texts` are the changed files, by path. `errors` are the reasons why the result would
    not share the work or would not be right. `remarks` are about code that was left unchanged. `reason` states why
    there is nothing to convert."""

    texts: Mapping[str, str]
    errors: tuple[Remark, ...]
    remarks: tuple[Remark, ...]
    reason: str | None = None


def convert_files(sources: Mapping[str, str], module: str = "ddp") -> Conversion:
    """Rewrite the files of a training for one process (`sources`, path to text) and return the Conversion. The first
    file is the script that is started. `module` is the name of the helpers' module. Raise cst.ParserSyntaxError if a
    file is not Python."""
    files = [SourceFile(path, text) for path, text in sources.items()]
    for file in files:
        for each in nodes_below(file.module):
            if isinstance(each, cst.Name) and each.value in DISTRIBUTED:
                reason = f"it distributes itself already ({each.value}, {file.path}:{file.line(each)})"
                return Conversion({}, (), (), reason)
    return _Plan(Program(files), module).conversion()


class _Plan:
    """The planned changes of a conversion: for each node of the syntax trees, the functions that change it."""

    def __init__(self, program: Program, module: str) -> None:
        self._program = program
        self._module = module
        self._changes: dict[cst.CSTNode, list[Callable[[Any], Any]]] = {}
        self._errors: list[Remark] = []
        self._remarks: list[Remark] = []
        kinds = LossKinds(program)
        optimizers = find_optimizers(program)
        sources = BatchSources(program)
        doubts = Doubts(program, kinds, sources.bodies)
        for _, value in sources.shared:
            self._wrap(value, "share")
        self._wrap_optimizers(optimizers, self._losses_are_sums(kinds), doubts.norm is not None)
        self._wrap_figures(kinds, sources)
        surroundings = Surroundings(program, module)
        for node, change in surroundings.changes:
            self._changes.setdefault(node, []).append(change)
        for file, line, text in (*doubts.remarks, *surroundings.remarks):
            self._remarks.append(Remark(file.path, line, text))
        self._errors += [
            Remark(file.path, line, text) for file, line, text in find_refusals(program, optimizers, sources)
        ]

    def conversion(self) -> Conversion:
        remarks = tuple(sorted(set(self._remarks)))
        texts = {}
        for number, file in enumerate(self._program.files):
            is_changed = number == 0 or any(node in self._changes for node in nodes_below(file.module))
            self._mark(file, [remark for remark in remarks if remark.path == file.path])
            changed = file.module.visit(_Rewriter(self._changes))
            if is_changed:
                changed = _with_import(changed, self._import(file))
            if changed.code != file.text:
                texts[file.path] = changed.code
        return Conversion(texts, tuple(sorted(set(self._errors))), remarks)

    def _mark(self, file: SourceFile, remarks: Sequence[Remark]) -> None:
        """Plan a comment in the converted file for each remark, above the statement that the remark is about."""
        for remark in remarks:
            statement = statement_at(file, remark.line)
            if statement is not None:
                self._changes.setdefault(statement, []).append(commented(f"{self._module}: {remark.text}"))

    def _import(self, file: SourceFile) -> str:
        """Return the text of the statement by which a converted file imports the helpers, which are in the directory of
        the script. If the script uses relative imports, as in a package, the statement is a relative import in all
        files."""
        entry = self._program.files[0]
        if not any(isinstance(each, cst.ImportFrom) and each.relative for each in nodes_below(entry.module)):
            return f"import {self._module}\n"
        ups, *downs = _way(os.path.dirname(file.path), os.path.dirname(entry.path))
        return f"from .{ups}{'.'.join(downs)} import {self._module}\n"

    def _wrap_optimizers(self, optimizers: Sequence[Optimizer], is_sum: bool, has_norm: bool) -> None:
        for optimizer in optimizers:
            self._wrap(optimizer.call, "average_gradients", [*optimizer.models, *(["is_sum=True"] if is_sum else [])])
            if not optimizer.models and has_norm:
                self._remark(optimizer.file, optimizer.call, _NO_MODEL)

    def _wrap_figures(self, kinds: LossKinds, sources: BatchSources) -> None:
        figures = Figures(self._program, kinds, self._module)
        for file, body, names in sources.bodies:
            figures.read(file, body, names)
        for node in figures.means:
            self._wrap(node, "mean")
        for node in figures.totals:
            self._wrap(node, "total")
        self._wrap_own_answers(figures)
        self._remarks += [Remark(file.path, line, text) for file, line, text in figures.remarks]
        self._errors += [Remark(file.path, line, text) for file, line, text in figures.errors]

    def _wrap_own_answers(self, figures: Figures) -> None:
        """Plan to wrap the conditions in a loop that trains whose result may differ between ranks, such as those about
        the time, so that rank 0 decides."""
        for file in self._program.files:
            for node in nodes_below(file.module):
                if isinstance(node, (cst.If, cst.While)) and figures.is_for_all(file, node):
                    loops = [node, *(each for each in file.around(node) if isinstance(each, (cst.For, cst.While)))]
                    if any(self._program.trains(file, loop) for loop in loops):
                        for answer in own_answers(self._program, file, node):
                            self._wrap(answer, "as_on_main")

    def _losses_are_sums(self, kinds: LossKinds) -> bool:
        """Return whether the losses of the training are sums over a batch, and not means. Add a remark on a loss of any
        other kind, and errors if sums and other kinds occur together."""
        found: dict[Kind, list[tuple[SourceFile, cst.Call]]] = {}
        for file in self._program.files:
            for call in calls_below(file.module):
                loss = loss_of(call)
                if loss is not None:
                    found.setdefault(kinds.kind(file, loss), []).append((file, call))
        for kind, places in found.items():
            if kind.word == MIXED:
                self._remarks.append(Remark(kind.path, kind.line, f"{kind.reason}: {_NO_MEAN}"))
            elif kind not in (MEAN, SUM) and not is_same(kind):
                for file, call in places:
                    self._remark(file, call, _NOT_SEEN)
            elif kind == SUM and len(found) > 1:
                self._errors += [Remark(file.path, file.line(call), _BOTH) for file, call in places]
        return SUM in found and MEAN not in found

    def _wrap(self, node: cst.CSTNode, function: str, others: Sequence[str] = ()) -> None:
        name = f"{self._module}.{function}"
        self._changes.setdefault(node, []).append(lambda value: wrapped(value, name, others))

    def _remark(self, file: SourceFile, node: cst.CSTNode, text: str) -> None:
        self._remarks.append(Remark(file.path, file.line(node), text))


class _Rewriter(cst.CSTTransformer):
    def __init__(self, changes: Mapping[cst.CSTNode, Sequence[Callable[[Any], Any]]]) -> None:
        super().__init__()
        self._changes = changes

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        updated = super().on_leave(original_node, updated_node)
        for change in self._changes.get(original_node, ()):
            updated = change(updated)
        return updated


def _way(start: str, end: str) -> list[str]:
    """Return the relative path from the folder `start` to the folder `end` for a relative import: a text with one dot
    for each folder to go up, then the names of the folders to enter."""
    parts = os.path.relpath(end or ".", start or ".").split(os.sep)
    return ["." * parts.count(".."), *(part for part in parts if part not in ("..", "."))]


def _with_import(module: cst.Module, imported: str) -> cst.Module:
    """Return the module's syntax tree with the statement `imported`, which imports the helpers, after its last import
    at the beginning."""
    body, last = list(module.body), 0
    for place, statement in enumerate(body):
        line = statement.body[0] if isinstance(statement, cst.SimpleStatementLine) else None
        if isinstance(line, (cst.Import, cst.ImportFrom)) or (place == 0 and isinstance(line, cst.Expr)):
            last = place + 1
        elif not isinstance(statement, (cst.Try, cst.SimpleStatementLine)):
            break
    return module.with_changes(body=[*body[:last], *cst.parse_module(imported).body, *body[last:]])
