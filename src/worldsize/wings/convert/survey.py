"""What a script for one process has: models, optimizers, loaders, where it begins; found without executing it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

OPTIMIZERS = (
    "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "LBFGS", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD",
    "SparseAdam", "Adafactor", "Muon",
)  # fmt: skip
DISTRIBUTED = (
    "DistributedDataParallel",
    "FullyShardedDataParallel",
    "fully_shard",
    "init_process_group",
    "Accelerator",
)
_GIVES_PARAMETERS = ("parameters", "named_parameters")


def code(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


def last_name(function: cst.BaseExpression) -> str:
    """`optim.Adam` and `Adam` are Adam."""
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def argument(call: cst.Call, name: str, place: int | None = None) -> cst.BaseExpression | None:
    """By its name, or by its place among those without one."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return plain[place] if place is not None and place < len(plain) else None


def calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        yield from calls(child)


def trained_models(call: cst.Call) -> list[str]:
    """Of `Adam(model.parameters())` the model, of any other call nothing."""
    if last_name(call.func) not in OPTIMIZERS:
        return []
    found = [
        code(inner.func.value)
        for inner in calls(call)
        if isinstance(inner.func, cst.Attribute) and inner.func.attr.value in _GIVES_PARAMETERS
    ]
    return list(dict.fromkeys(found))


def is_training_loader(call: cst.Call) -> bool:
    """Whether a call makes a loader to train with: one that shuffles."""
    shuffle = argument(call, "shuffle", 2)
    return last_name(call.func) == "DataLoader" and shuffle is not None and code(shuffle) == "True"


def _pairs(node: cst.Assign) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Target and value, of `a, b = c, d` too."""
    for target in node.targets:
        if isinstance(target.target, cst.Tuple) and isinstance(node.value, cst.Tuple):
            for one, other in zip(target.target.elements, node.value.elements, strict=False):
                yield one.value, other.value
        else:
            yield target.target, node.value


class Survey(cst.CSTVisitor):
    """`models`: expressions whose parameters an optimizer gets; `loaders`: the names of loaders that shuffle;
    `aliases`: a model's other names, which were given before;
    `own`: what shows that it distributes itself; `has_main`: it begins at `if __name__ == "__main__"`;
    `remarks`: (line, what is left alone)."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.models: list[str] = []
        self.loaders: list[str] = []
        self.aliases: dict[str, list[str]] = {}
        self._named: set[cst.CSTNode] = set()
        self.own: str | None = None
        self.has_main = False
        self.has_torch = False
        self.remarks: list[tuple[int, str]] = []

    def line(self, node: cst.CSTNode) -> int:
        return int(self.get_metadata(PositionProvider, node).start.line)

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in DISTRIBUTED:
            self.own = node.value

    def visit_ImportAlias(self, node: cst.ImportAlias) -> None:
        self.has_torch = self.has_torch or code(node.name).split(".")[0] == "torch"

    def visit_If(self, node: cst.If) -> None:
        self.has_main = self.has_main or is_main(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        if isinstance(node.value, cst.Call) and is_training_loader(node.value) and len(node.targets) == 1:
            self.loaders.append(code(node.targets[0].target))
            self._named.add(node.value)
        for target, value in _pairs(node):
            if isinstance(value, (cst.Name, cst.Attribute)):
                self.aliases.setdefault(code(value), []).append(code(target))

    def visit_Call(self, node: cst.Call) -> None:
        models = trained_models(node)
        self.models += [model for model in models if model not in self.models]
        name = last_name(node.func)
        if name in OPTIMIZERS and not models:
            self.remarks.append((self.line(node), f"{name} gets its parameters from elsewhere: wrap their model"))
        reduction = argument(node, "reduction")
        if reduction is not None and code(reduction).strip("\"'") == "sum":
            what = "the loss is a sum: DDP averages, so multiply it by WORLD_SIZE before the backward"
            self.remarks.append((self.line(node), what))
        if name == "SummaryWriter":
            self.remarks.append((self.line(node), "every rank would write events: make it on RANK 0 only"))
        mode = argument(node, "mode", 1)
        if name == "open" and mode is not None and set(code(mode)) & set("wax+"):
            self.remarks.append((self.line(node), "every rank would write this file: do it on RANK 0 only"))
        if is_training_loader(node) and node not in self._named:
            what = "call its sampler's set_epoch(epoch) at the beginning of each epoch"
            self.remarks.append((self.line(node), what))
        shuffle = argument(node, "shuffle", 2)
        if name == "DataLoader" and shuffle is not None and code(shuffle) not in ("True", "False"):
            what = "whether it shuffles is not known here: give what is trained with a DistributedSampler"
            self.remarks.append((self.line(node), what))
        if is_training_loader(node) and (argument(node, "sampler") or argument(node, "batch_sampler")):
            self.remarks.append((self.line(node), "a sampler of its own: give each rank its part of it"))
        if name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"):
            what = "BatchNorm sees a rank's slice: SyncBatchNorm.convert_sync_batchnorm(model) on GPUs"
            self.remarks.append((self.line(node), what))


def is_main(node: cst.If) -> bool:
    return code(node.test).replace("'", '"') in ('__name__ == "__main__"', '"__main__" == __name__')


def survey(source: str) -> Survey:
    """Raises cst.ParserSyntaxError."""
    found = Survey()
    MetadataWrapper(cst.parse_module(source)).visit(found)
    return found
