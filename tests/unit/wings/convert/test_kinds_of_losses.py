"""What a loss is, by its expression: a mean, a sum, or what the samples of a batch give together."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from conversions import BEGINNING, LOOP, changed_lines, errors, remarks, training

from worldsize.wings.convert.rewrite import convert_files

MEANS = (
    "F.cross_entropy(out, y)",
    "nn.MSELoss()(out, y)",
    "F.mse_loss(out, y, reduction='sum') / x.size(0)",
    "F.mse_loss(out, y, reduction='sum') / len(x)",
    "((out - y) ** 2).mean()",
    "(out - y).abs().mean(0).sum()",
    "(out - y).pow(2).sum(dim=1).mean()",
    "torch.mean(torch.abs(out - y))",
    "0.5 * F.l1_loss(out, y) + F.mse_loss(out, y) * args.weight",
    "F.l1_loss(out, y) + 0.1 * sum(p.norm() for p in model.parameters())",
    "F.cross_entropy(out, y, reduction='none').mean() / 4",
    "-torch.distributions.Normal(out, 1).log_prob(y).mean()",
)
SUMS = (
    "F.mse_loss(out, y, reduction='sum')",
    "((out - y) ** 2).sum()",
    "torch.sum(out * y) + F.mse_loss(out, y, size_average=False)",
    "nn.BCELoss(reduction='sum')(out, y)",
)
MIXED = {
    "torch.sqrt(F.mse_loss(out, y))": "sqrt() of a mean",
    "F.mse_loss(out, y).sqrt()": "sqrt() of a mean",
    "(out * y).sum() / y.sum()": "a sum of the batch, combined",
    "F.cross_entropy(out, y, ignore_index=0)": "a mean over the targets that count",
    "F.cross_entropy(out, y, weight=w)": "a mean over weights of each class",
    "(out - out.mean(0)).pow(2).mean()": "values and a mean of the batch, combined",
    "out.std(0).mean()": "it is computed across the samples of a batch",
    "F.mse_loss(out.mean(0), w)": "it is computed across the samples of a batch",
    "F.cross_entropy(out @ out.T, y)": "each sample is compared with the others",
    "F.cross_entropy(out[:4], y[:4])": "some rows of the batch are taken",
    "F.cross_entropy(out[y > 0], y[y > 0])": "some rows of the batch are taken",
    "F.mse_loss(out, y) + F.mse_loss(out, y, reduction='sum')": "a mean and a sum of the batch, combined",
    "F.mse_loss(out, y, reduction='sum') + model.weight.norm()": "a sum and a number of the batch, combined",
}


@pytest.mark.parametrize("loss", MEANS)
def test_a_mean_is_nothing_to_say(loss: str) -> None:
    assert remarks(training(loss)) == []
    assert not any("is_sum" in line for line in changed_lines(training(loss)))


@pytest.mark.parametrize("loss", SUMS)
def test_gradients_of_a_sum_are_added_up(loss: str) -> None:
    assert remarks(training(loss)) == []
    assert any("model, is_sum=True)" in line for line in changed_lines(training(loss)))


@pytest.mark.parametrize("loss", MIXED)
def test_what_is_neither_is_said(loss: str) -> None:
    (remark,) = remarks(training(loss))
    assert remark.line == 10 and MIXED[loss] in remark.text


def test_a_loss_of_another_module_is_not_seen() -> None:
    (remark,) = remarks(training("theirs(out, y)"))
    assert remark.line == 11 and "it is unclear whether this loss is a mean" in remark.text


def test_a_mean_and_a_sum_with_a_backward_each_are_refused() -> None:
    source = training("F.mse_loss(out, y)", "F.mse_loss(out, y, reduction='sum').backward()")
    (error,) = errors(source)
    assert error.line == 13 and "make both of them means" in error.text


def test_the_last_value_before_the_backward_counts() -> None:
    source = training("F.mse_loss(out, y, reduction='none')").replace(
        "loss.backward", "loss = loss.mean(); loss.backward"
    )
    assert remarks(source) == []


def test_losses_that_are_added_up_in_a_loop() -> None:
    source = training("0").replace(
        "loss.backward()", "for i in range(3): loss += F.mse_loss(out, y)\n    loss.backward()"
    )
    assert remarks(source) == []
    assert not any("ddp.mean" in line for line in changed_lines(source))


def test_what_a_function_or_a_model_of_these_files_returns() -> None:
    function = "def criterion(a, b):\n    error = (a - b).abs()\n    return error.mean()\n"
    assert remarks(function + training("criterion(out, y)")) == []
    module = (
        "class Dice(nn.Module):\n    def forward(self, a, b):\n        return 1 - (a * b).sum() / (a.sum() + b.sum())\n"
    )
    (remark,) = remarks(BEGINNING + module + "dice = Dice()\n" + training("dice(out, y)"))
    assert remark.line == 10 and "a sum of the batch, combined" in remark.text


def test_a_module_by_another_name() -> None:
    assert remarks("import torch as t\n" + training("t.mean((out - y) ** 2)")) == []


def test_what_a_lambda_gives() -> None:
    assert remarks("error = lambda a, b: ((a - b) ** 2).mean()\n" + training("error(out, y)")) == []


@pytest.mark.parametrize("made", ["nn.CrossEntropyLoss(weight=w)", "lambda a, b: torch.sqrt(F.mse_loss(a, b))"])
def test_a_loss_that_is_made_in_another_file(made: str) -> None:
    engine = "def train(loader, model, optimizer, criterion):\n" + LOOP % ("criterion(out, y)", "")
    engine = engine.replace("\n", "\n    ")
    script = f"from engine import train\n{BEGINNING}loss = {made}\ntrain(loader, model, optimizer, loss)\n"
    (remark,) = convert_files({"train.py": script, "engine.py": engine}).remarks
    assert (remark.path, remark.line) == ("train.py", 9)
