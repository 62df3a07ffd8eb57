"""Makes training scripts at random, in the styles that people write: what their loops count and print, where they keep
it, how they go on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

HEAD = """\
import math
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed({seed})
torch.set_default_dtype(torch.float64)
data = torch.randn({samples}, 6)
labels = (data.sum(1) > 0).long() + (data[:, 0] > 1).long()
loader = DataLoader(TensorDataset(data, labels), batch_size={batch}, shuffle={shuffle}, drop_last={drop})
other = DataLoader(TensorDataset(torch.randn({samples}, 2)), batch_size={batch})
model = {model}
optimizer = torch.optim.{optimizer}
criterion = nn.CrossEntropyLoss({criterion})


class Meter:
    def __init__(self):
        self.value = self.total = self.count = 0

    def update(self, value, n=1):
        self.value = value
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / self.count

"""

MODELS = (
    "nn.Linear(6, 3)",
    "nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))",
    "nn.Sequential(nn.Linear(6, 4), nn.LayerNorm(4), nn.ReLU(), nn.Linear(4, 3))",
)
OPTIMIZERS = (
    "SGD(model.parameters(), lr=0.1)",
    "SGD(model.parameters(), lr=0.05, momentum=0.9)",
    "Adam(model.parameters(), lr=0.01)",
)

LOSSES = (
    ["loss = criterion(out, y)"],
    ["loss = F.cross_entropy(out, y)"],
    ["loss = F.cross_entropy(out, y, reduction='sum')"],
    ["loss = F.cross_entropy(out, y, reduction='sum') / len(y)"],
    ["loss = F.cross_entropy(out, y, reduction='none').mean()"],
    ["loss = criterion(out, y) + 0.1 * out.pow(2).mean()"],
    ["penalty = sum(p.pow(2).sum() for p in model.parameters())", "loss = criterion(out, y) + 1e-3 * penalty"],
    ["logs = F.log_softmax(out, dim=1)", "loss = -logs[torch.arange(len(y)), y].mean()"],
    [
        "each = F.cross_entropy(out, y, reduction='none')",
        "keep = (y != 2).to(each.dtype)",
        "loss = (each * keep).sum() / keep.sum()",
    ],
    ["target = F.one_hot(y, 3).to(out.dtype)", "loss = F.mse_loss(out, target)"],
    [
        "target = torch.zeros(y.size(0), 3)",
        "target[torch.arange(y.size(0)), y] = 1.0",
        "loss = F.mse_loss(out, target)",
    ],
)


class Metric(NamedTuple):
    """`init`: before the loop. `code`: in it, after the step. `inside`, `after`: what is printed there. `S.` stands for
    where variables are kept."""

    code: Sequence[str]
    inside: Sequence[str] = ()
    after: Sequence[str] = ()
    init: Sequence[str] = ()


METRICS = (
    Metric(["S.n# = x.size(0)"], ["S.n#"]),
    Metric(["S.n# = len(y)"], ["S.n#", "(i + 1) * S.n#"]),
    Metric(["S.n#, S.d# = x.shape"], ["S.n# * S.d#"]),
    Metric(["S.n# = y.numel()", "S.f# = loss.item() / S.n#"], ["S.f#"]),
    Metric(["S.seen# += len(x)"], ["S.seen#"], ["S.seen#"], ["S.seen# = 0"]),
    Metric(["S.right# += (pred == y).sum().item()"], ["S.right#"], ["S.right# / len(data)"], ["S.right# = 0"]),
    Metric(
        ["S.right# += torch.sum(pred == y)"], [], ["S.right#.item()", "S.right#.double() / len(data)"], ["S.right# = 0"]
    ),
    Metric(
        ["S.right# += pred.eq(y.view_as(pred)).to(torch.float64).sum()"], [], ["float(S.right#)"], ["S.right# = 0.0"]
    ),
    Metric(
        ["S.hits# = (out.argmax(dim=1) == y).sum().item()", "S.right# += S.hits#", "S.seen# += x.shape[0]"],
        ["S.right# / S.seen#", "100.0 * S.hits# / x.shape[0]"],
        ["S.right# / S.seen#"],
        ["S.right# = S.seen# = 0"],
    ),
    Metric(["S.run# += loss.item()"], ["S.run# / (i + 1)"], ["S.run# / len(loader)"], ["S.run# = 0.0"]),
    Metric(["S.run# += loss.item() * x.size(0)"], ["S.run#"], ["S.run# / len(data)"], ["S.run# = 0.0"]),
    Metric(["S.run# += loss.detach()"], [], ["S.run#.item()"], ["S.run# = 0.0"]),
    Metric(["S.run# += loss.detach() * len(x)"], [], ["float(S.run#) / len(data)"], ["S.run# = torch.zeros(())"]),
    Metric(["S.ema# = 0.9 * S.ema# + 0.1 * float(loss)"], ["S.ema#"], ["S.ema#"], ["S.ema# = 0.0"]),
    Metric(
        ["S.accs#.append((pred == y).double().mean().item())"], [], ["sum(S.accs#) / len(S.accs#)"], ["S.accs# = []"]
    ),
    Metric(
        ["S.accs#.append((pred == y).double().mean())"], [], ["torch.stack(S.accs#).mean().item()"], ["S.accs# = []"]
    ),
    Metric(
        ["S.preds#.extend(pred.tolist())", "S.trues# += y.cpu().numpy().tolist()"],
        ["len(S.preds#)"],
        ["sum(p == t for p, t in zip(S.preds#, S.trues#))"],
        ["S.preds#, S.trues# = [], []"],
    ),
    Metric(
        ["S.outs#.append(out.detach())"],
        [],
        ["torch.cat(S.outs#).std().item()", "len(torch.cat(S.outs#))"],
        ["S.outs# = []"],
    ),
    Metric(
        ["S.conf#[y, pred] += 1"], [], ["S.conf#.sum().item()", "S.conf#[0, 0].item()"], ["S.conf# = torch.zeros(3, 3)"]
    ),
    Metric(
        ["for a, b in zip(y, pred):", "    S.conf#[a.item()][b.item()] += 1"],
        [],
        ["S.conf#[0][0]", "S.conf#[1][2]"],
        ["S.conf# = [[0] * 3 for _ in range(3)]"],
    ),
    Metric(
        ["S.top# = out.topk(2, dim=1)[1]", "S.in# = S.top#.eq(y.view(-1, 1)).sum().item()"],
        ["S.in#", "S.in# / y.size(0)"],
    ),
    Metric(["S.most# = max(S.most#, out.max().item())"], ["S.most#"], ["S.most#"], ["S.most# = -1e9"]),
    Metric(["if (pred == y).all():", "    S.full# += 1"], [], ["S.full#"], ["S.full# = 0"]),
    Metric(
        ["S.h# = (pred == y).sum()", "if S.h# > S.best#:", "    S.best# = S.h#.item()"],
        [],
        ["S.best#"],
        ["S.best# = 0"],
    ),
    Metric(["S.spread# = out.std().item()"], ["S.spread#"]),
    Metric(["S.np# = (pred.numpy() == y.numpy()).mean()"], ["S.np#"]),
    Metric(
        ["S.meter#.update(loss.item(), x.size(0))"], ["S.meter#.value"], ["S.meter#.average"], ["S.meter# = Meter()"]
    ),
    Metric(
        ["S.meter#.update((pred == y).double().mean().item(), len(y))"],
        ["S.meter#.average"],
        ["S.meter#.count"],
        ["S.meter# = Meter()"],
    ),
    Metric(["S.wrong# = (pred != y).nonzero().numel()"], ["S.wrong#"]),
    Metric(["S.missed# = x[pred != y]"], ["S.missed#.size(0)", "S.missed#.sum().item()"]),
    Metric(["S.kinds# = torch.bincount(y, minlength=3).tolist()"], ["S.kinds#[0]", "S.kinds#[1]"]),
    Metric(["S.sure# = F.softmax(out, dim=1).max(dim=1)[0].mean().item()"], ["S.sure#"]),
    Metric(["S.rms# = torch.sqrt(out.pow(2).mean()).item()"], ["S.rms#"]),
    Metric(["S.ppl# = math.exp(min(loss.item(), 5))"], ["S.ppl#"]),
    Metric(["S.ppl# = torch.exp(loss.detach().clamp(max=5))"], ["S.ppl#.item()"]),
    Metric(["S.stats#['loss'] += loss.item() * len(y)", "S.stats#['n'] += len(y)"], ["S.stats#['n']"])._replace(
        init=["S.stats# = {'loss': 0.0, 'n': 0}"], after=["S.stats#['loss'] / S.stats#['n']"]
    ),
    Metric(["S.first# = out[0].tolist()"], ["S.first#[0]"]),
    Metric(["S.some# = out.detach()[:3].sum().item()"], ["S.some#"]),
    Metric(["S.centre# = x.mean(0)"], ["S.centre#[0].item()", "S.centre#.norm().item()"]),
    Metric(
        ["S.count# = 0", "for k in range(len(y)):", "    if pred[k] == y[k]:", "        S.count# += 1"], ["S.count#"]
    ),
    Metric(["S.order# = out.detach()[:, 0].argsort()"], ["S.order#[0].item()", "S.order#.tolist()[-1]"]),
    Metric(["S.part# = [(pred[y == c] == c).sum().item() for c in range(3)]"], ["S.part#[0]", "S.part#[1]"]),
    Metric(["S.grad# = sum(p.grad.norm().item() for p in model.parameters())"], ["S.grad#"]),
    Metric(["S.seen# = S.seen# + y.shape[0]", "S.left# = len(data) - S.seen#"], ["S.left#"], [], ["S.seen# = 0"]),
)

PRINTS = ('print("@", {0})', "print(f'@ {{{0}}}')", "print(f'@ {{float({0}):.12g}}')", "print('@ %.12g' % ({0}))")


class Program(NamedTuple):
    """`lines`: of each thing that is printed, by its tag, the lines of the script that it is made in."""

    source: str
    lines: dict[str, set[int]]


def make_program(seed: int) -> Program:
    """The script of this seed."""
    return _Maker(random.Random(seed), seed).make()


class _Maker:
    def __init__(self, dice: random.Random, seed: int) -> None:
        self._dice = dice
        self._seed = seed
        self._lines: list[str] = []
        self._made: dict[str, set[int]] = {}

    def make(self) -> Program:
        dice = self._dice
        batch = dice.choice((4, 6, 8, 8))
        head = HEAD.format(
            seed=self._seed,
            samples=dice.choice((24, 36, 37, 44, 45, 26)),
            batch=batch,
            shuffle=dice.choice((True, False)),
            drop=dice.choice((True, False, False)),
            model=dice.choice(MODELS),
            optimizer=dice.choice(OPTIMIZERS),
            criterion=dice.choice(("", "", "label_smoothing=0.1")),
        )
        self._lines = head.splitlines()
        chosen = dice.sample(METRICS, dice.randint(2, 6))
        getattr(self, dice.choice(("_plain", "_function", "_trainer", "_nested", "_evaluated")))(chosen)
        self._add(0, "for parameter in model.parameters():")
        self._add(4, 'print("weights", parameter.sum().item())')
        return Program("\n".join(self._lines) + "\n", self._made)

    def _add(self, indent: int, line: str) -> int:
        self._lines.append(" " * indent + line)
        return len(self._lines)

    def _plain(self, metrics: list[Metric]) -> None:
        self._epochs(0, "", metrics)

    def _function(self, metrics: list[Metric]) -> None:
        self._add(0, "def train():")
        self._epochs(4, "", metrics)
        self._add(4, "return 0")
        self._add(0, "train()")

    def _trainer(self, metrics: list[Metric]) -> None:
        self._add(0, "class Trainer:")
        self._add(4, "def fit(self):")
        self._epochs(8, "self.", metrics)
        self._add(0, "Trainer().fit()")

    def _nested(self, metrics: list[Metric]) -> None:
        self._add(0, "class Box:")
        self._add(4, "pass")
        self._add(0, "def train(box):")
        self._epochs(4, "box.", metrics)
        self._add(0, "train(Box())")

    def _evaluated(self, metrics: list[Metric]) -> None:
        self._epochs(0, "", metrics)
        self._add(0, "model.eval()")
        self._add(0, "right = seen = 0")
        self._add(0, "with torch.no_grad():")
        self._add(4, "for x, y in loader:")
        self._add(8, "right += (model(x).argmax(1) == y).sum().item()")
        self._add(8, "seen += len(y)")
        self._add(0, 'print("tested", right, seen)')

    def _epochs(self, indent: int, keep: str, metrics: list[Metric]) -> None:
        dice = self._dice
        if dice.random() < 0.4:
            self._add(indent, "for epoch in range(2):")
            indent += 4
        named = [
            (tag, Metric(*([line.replace("S.", keep).replace("#", str(tag)) for line in lines] for lines in metric)))
            for tag, metric in enumerate(metrics)
        ]
        for tag, metric in named:
            self._code(indent, tag, metric.init)
        heads = ("for i, (x, y) in enumerate(loader):", "for i, (x, y) in enumerate(loader):")
        heads += ("for i, ((x, y), (z,)) in enumerate(zip(loader, other)):",)
        self._add(indent, dice.choice(heads))
        self._body(indent + 4, named)
        for tag, metric in named:
            for what in metric.after:
                self._print(indent, tag, what)

    def _body(self, indent: int, named: list[tuple[int, Metric]]) -> None:
        dice = self._dice
        if dice.random() < 0.2:
            self._add(indent, "if len(x) < loader.batch_size:")
            self._add(indent + 4, "continue")
        self._add(indent, dice.choice(("out = model(x)", "out = model(x.view(x.size(0), -1))", "out = model(x)")))
        self._loss = {self._add(indent, line) for line in dice.choice(LOSSES)}
        early = dice.random() < 0.3
        if not early:
            self._step(indent)
        self._add(
            indent, dice.choice(("pred = out.argmax(1)", "_, pred = torch.max(out, 1)", "pred = out.data.max(1)[1]"))
        )
        for tag, metric in named:
            if not (early and "p.grad" in metric.code[0]):
                self._code(indent, tag, metric.code)
        if early:
            self._step(indent)
        for tag, metric in named:
            if not (early and "p.grad" in metric.code[0]):
                for what in metric.inside:
                    self._print(indent, tag, what)
        if dice.random() < 0.2:
            self._add(indent, "if i == 2:")
            self._add(indent + 4, "break")

    def _step(self, indent: int) -> None:
        self._add(indent, "optimizer.zero_grad()")
        self._add(indent, "loss.backward()")
        self._add(indent, "optimizer.step()")

    def _code(self, indent: int, tag: int, lines: Sequence[str]) -> None:
        for line in lines:
            self._made.setdefault("v%d" % tag, set()).add(self._add(indent, line))

    def _print(self, indent: int, tag: int, what: str) -> None:
        line = self._dice.choice(PRINTS).format(what).replace("@", "v%d" % tag)
        if "'" in what or '"' in what:
            line = 'print("v%d", %s)' % (tag, what)
        self._made.setdefault("v%d" % tag, set()).add(self._add(indent, line))
        self._made["v%d" % tag] |= getattr(self, "_loss", set())
