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
    """The last part of a function's name: Adam of `optim.Adam` and of `Adam`."""
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


def argument(call: cst.Call, name: str, place: int | None = None) -> cst.BaseExpression | None:
    """An argument by its name, or by its place among those without a name."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    return plain[place] if place is not None and place < len(plain) else None


def _calls(node: cst.CSTNode) -> Iterator[cst.Call]:
    if isinstance(node, cst.Call):
        yield node
    for child in node.children:
        yield from _calls(child)


def _text(call: cst.Call, name: str, place: int | None = None) -> str:
    """The text of an argument; empty where it is not given."""
    value = argument(call, name, place)
    return "" if value is None else code(value)


def trained_models(call: cst.Call) -> list[str]:
    """The models whose parameters an optimizer gets: of `Adam(model.parameters())` the model, of any other call
    none."""
    if last_name(call.func) not in OPTIMIZERS:
        return []
    functions = [inner.func for inner in _calls(call) if last_name(inner.func) in _GIVES_PARAMETERS]
    return list(dict.fromkeys(code(each.value) for each in functions if isinstance(each, cst.Attribute)))


def is_training_loader(call: cst.Call) -> bool:
    """Whether a call makes a loader to train with: one that shuffles."""
    return last_name(call.func) == "DataLoader" and _text(call, "shuffle", 2) == "True"


def has_sampler(call: cst.Call) -> bool:
    """Whether a loader gets a sampler from the script."""
    return argument(call, "sampler") is not None or argument(call, "batch_sampler") is not None


def _pairs(node: cst.Assign) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """Each target with its value; of `a, b = c, d`, too."""
    for target in node.targets:
        if isinstance(target.target, cst.Tuple) and isinstance(node.value, cst.Tuple):
            for one, other in zip(target.target.elements, node.value.elements, strict=False):
                yield one.value, other.value
        else:
            yield target.target, node.value


class Survey(cst.CSTVisitor):
    """`models`: expressions whose parameters an optimizer gets; `loaders`: the names of loaders that shuffle;
    `aliases`: a model's other names, which the script gave it before;
    `own`: what shows that the script distributes itself; `has_main`: it begins at `if __name__ == "__main__"`;
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
        self.remarks: list[tuple[int, str]] = []

    def visit_Name(self, node: cst.Name) -> None:
        if node.value in DISTRIBUTED:
            self.own = node.value

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
        name, models = last_name(node.func), trained_models(node)
        self.models += [model for model in models if model not in self.models]
        trains, loads = is_training_loader(node), name == "DataLoader"
        left_alone = (
            (name in OPTIMIZERS and not models, f"{name} gets its parameters from elsewhere: wrap their model"),
            (
                _text(node, "reduction").strip("\"'") == "sum",
                "the loss is a sum: DDP averages, so multiply it by WORLD_SIZE before the backward",
            ),
            (name == "SummaryWriter", "every rank would write events: make it on RANK 0 only"),
            (
                name == "open" and bool(set(_text(node, "mode", 1)) & set("wax+")),
                "every rank would write this file: do it on RANK 0 only",
            ),
            (
                trains and node not in self._named,
                "call its sampler's set_epoch(epoch) at the beginning of each epoch",
            ),
            (
                loads and _text(node, "shuffle", 2) not in ("", "True", "False"),
                "whether it shuffles is not known here: give what is trained with a DistributedSampler",
            ),
            (trains and has_sampler(node), "a sampler of its own: give each rank its part of it"),
            (
                name in ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d"),
                "BatchNorm sees a rank's slice: SyncBatchNorm.convert_sync_batchnorm(model) on GPUs",
            ),
        )
        line = int(self.get_metadata(PositionProvider, node).start.line)
        self.remarks += [(line, remark) for holds, remark in left_alone if holds]


def is_main(node: cst.If) -> bool:
    return code(node.test).replace("'", '"') in ('__name__ == "__main__"', '"__main__" == __name__')


def survey(source: str) -> Survey:
    """Survey a script. Raises cst.ParserSyntaxError for what is no Python."""
    found = Survey()
    MetadataWrapper(cst.parse_module(source)).visit(found)
    return found
