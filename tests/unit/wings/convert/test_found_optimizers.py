"""Which calls make optimizers, and of which models; weights that are changed directly."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from conversions import BEGINNING, changed_lines, errors

LOOP = "for x, y in loader:\n    loss = F.cross_entropy(model(x), y)\n    loss.backward()\n    %s\n"


def averaged(made: str) -> list[str]:
    beginning = BEGINNING.replace("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n", "")
    lines = changed_lines(beginning + made + "\n" + LOOP % "optimizer.step()")
    return [line for line in lines if "ddp.average_gradients" in line]


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("o = optim.Adam(model.parameters())", "o = ddp.average_gradients(optim.Adam(model.parameters()), model)"),
        ("o = Adam([*a.parameters(), *b.parameters()])", "[*a.parameters(), *b.parameters()]), a, b)"),
        ("ps = list(a.parameters())\no = SGD(ps, lr=1)", "o = ddp.average_gradients(SGD(ps, lr=1), a)"),
        ("o = SGD([{'params': m.parameters()} for m in (a, b)])", "for m in (a, b)]), a, b)"),
        ("o = SGD([p for m in models for p in m.parameters()])", "for p in m.parameters()]))"),
        ("o = getattr(torch.optim, name)(model.parameters())", "(torch.optim, name)(model.parameters()), model)"),
        ("class Own(Optimizer):\n    pass\no = Own(model.parameters())", "(Own(model.parameters()), model)"),
    ],
)
def test_an_optimizer_is_found_with_its_models(made: str, line: str) -> None:
    assert [line in each for each in averaged(made)] == [True]


def test_a_base_class_is_no_optimizer_of_its_own() -> None:
    made = "class Own(torch.optim.SGD):\n    def __init__(self, p):\n        super().__init__(p, 1)\n"
    assert averaged(made + "o = Own(model.parameters())") == [
        "o = ddp.average_gradients(Own(model.parameters()), model)"
    ]


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ("for p in model.parameters(): p.data -= 0.1 * p.grad", "changed directly"),
        ("for p in model.parameters(): p.data.add_(p.grad, alpha=-1)", "changed directly"),
        ("model.weight = model.weight - model.weight.grad", "changed directly"),
        ("g = torch.autograd.grad(loss, model.parameters())", "gradients by torch.autograd.grad"),
    ],
)
def test_weights_that_are_changed_by_hand_are_refused(step: str, text: str) -> None:
    (error,) = errors(BEGINNING + LOOP % step)
    assert error.line == 11 and text in error.text


def test_a_training_without_an_optimizer_is_refused() -> None:
    beginning = BEGINNING.replace("torch.optim.SGD(model.parameters(), lr=0.1)", "make(model)")
    (error,) = errors(beginning + LOOP % "optimizer.step()")
    assert error.line == 10 and "no optimizer was found" in error.text
