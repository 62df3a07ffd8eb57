"""Figures that become all ranks', those that are said, and conditions that would part the ranks."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from conversions import BEGINNING, LOOP, changed_lines, errors, figures, remarks, training

SETTLED = {
    "print(loss.item())": "print(ddp.mean(loss).item())",
    "total += loss.item() * x.size(0)": "total += ddp.mean(loss).item() * ddp.total(x.size(0))",
    "total += loss": "total += ddp.mean(loss)",
    "right += (out.argmax(1) == y).sum().item()": "right += ddp.total((out.argmax(1) == y).sum()).item()",
    "count += len(y)": "count += ddp.total(len(y))",
    "print(f'{float(loss):.3f}')": "print(f'{float(ddp.mean(loss)):.3f}')",
    "losses.append(loss.detach())": "losses.append(ddp.mean(loss.detach()))",
    "writer.add_scalar('a', out.mean(), i)": "writer.add_scalar('a', ddp.mean(out.mean()), i)",
    "scheduler.step(loss)": "scheduler.step(ddp.mean(loss))",
    "report(loss=loss)": "report(loss=ddp.mean(loss))",
    "print('{loss}'.format(loss=meter), loss.item())": "print('{loss}'.format(loss=meter), ddp.mean(loss).item())",
    "history.append(dict(loss=loss.item(), y=0))": "history.append(dict(loss=ddp.mean(loss).item(), y=0))",
    "print((lambda loss: 0)(0), loss)": "print((lambda loss: 0)(0), ddp.mean(loss))",
    "print((out.argmax(1) == y).float().mean())": "print(ddp.mean((out.argmax(1) == y).float().mean()))",
    "print(math.exp(loss.item()))": "print(math.exp(ddp.mean(loss).item()))",
    "if x.size(0) != 8: continue": "if ddp.total(x.size(0)) != 8: continue",
    "if torch.isnan(loss): break": "if torch.isnan(ddp.mean(loss)): break",
    "if loss < best: best = loss.item()": "if ddp.mean(loss) < best: best = ddp.mean(loss).item()",
}


@pytest.mark.parametrize("told", SETTLED)
def test_a_mean_a_sum_or_a_size_becomes_all_ranks(told: str) -> None:
    assert figures(told) == [SETTLED[told]]
    assert remarks(training(told=told)) == []


@pytest.mark.parametrize("told", ["print(epoch)", "steps += 1", "print(x.size(1))", "model.zero_grad()", "y is None"])
def test_what_is_of_no_batch_stays(told: str) -> None:
    assert figures(told) == [] and remarks(training(told=told)) == []


@pytest.mark.parametrize("told", ["print(out)", "predictions.append(out.argmax(1))", "print(out.max())"])
def test_what_is_of_a_part_is_said(told: str) -> None:
    (remark,) = remarks(training(told=told))
    assert remark.line == 13 and remark.text.startswith("out is of rank 0's part of the batch")


def test_a_sum_is_added_up_and_a_mean_of_it_is_not() -> None:
    loss = "F.mse_loss(out, y, reduction='sum')"
    assert figures("print(loss.item() / len(x))", loss) == ["print(ddp.total(loss).item() / ddp.total(len(x)))"]


RIGHT = "right = (out.argmax(1) == y).sum().item()"


@pytest.mark.parametrize(
    ("told", "becomes"),
    [
        (RIGHT + "\nprint(right / len(y))", "print(right / ddp.total(len(y)))"),
        (RIGHT + "\nshare = right / len(y)\nprint(share)", "share = right / ddp.total(len(y))"),
        (RIGHT + "\nshare = right / len(y)\nprint(100 * share)", "share = right / ddp.total(len(y))"),
        ("part = loss.item() * len(y)\ntotal += part", "part = ddp.mean(loss).item() * ddp.total(len(y))"),
        ("value = loss.item()\ntotal += value * len(y)", "total += value * ddp.total(len(y))"),
        ("loss, n = loss.item(), len(y)\nprint(loss, n)", "loss, n = ddp.mean(loss).item(), len(y)"),
    ],
)
def test_a_figure_in_two_steps_is_counted_once(told: str, becomes: str) -> None:
    assert becomes in figures(told) and remarks(training(told=told)) == []
    assert not any("ddp.mean(right" in line or "ddp.mean(share" in line for line in figures(told))


def test_a_figure_that_a_function_returns_is_counted_once() -> None:
    step = "def step(x, y):\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n    return loss.item(), len(x)\n"
    loop = "for x, y in loader:\n    value, size = step(x, y)\n    total += value\n    count += size\n"
    lines = changed_lines(BEGINNING + step + loop)
    assert "return ddp.mean(loss).item(), len(x)" in lines and "count += ddp.total(size)" in lines
    assert not any(line.startswith("total") for line in lines)


@pytest.mark.parametrize(
    ("returned", "told", "becomes"),
    [
        ("{'loss': loss.item(), 'n': len(y)}", "n += out['n']; s += out['loss']", "n += ddp.total(out['n'])"),
        ("dict(loss=loss.item(), n=len(y))", "n += out['n']", "n += ddp.total(out['n'])"),
        ("[loss.item(), 0, len(y)]", "n += out[2]; s += out[0]; print(out[1])", "n += ddp.total(out[2])"),
        ("{'loss': loss, 'n': 3}", "s += out['loss'].item(); print(out['n'])", "s += ddp.mean(out['loss']).item()"),
        ("{'loss': loss.item(), 'rows': out}", "s += out['loss']", ""),
    ],
)
def test_a_part_of_what_a_function_returns(returned: str, told: str, becomes: str) -> None:
    step = "def step(x, y):\n    out = model(x)\n    loss = F.mse_loss(out, y)\n    loss.backward()\n    return %s\n"
    text = BEGINNING + step % returned + "for x, y in loader:\n    out = step(x, y)\n    %s\n" % told
    inside = [line for line in changed_lines(text) if "out[" in line]
    assert [line.partition(";")[0] for line in inside] == ([becomes] if becomes else []) and remarks(text) == []


@pytest.mark.parametrize("returned", ["[len(y), loss.item()]", "[*rows, len(y)]"])
def test_a_part_that_is_not_known_of_all_returns_is_said(returned: str) -> None:
    step = "def step(x, y):\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n"
    step += "    if fast: return [loss.item(), len(y)]\n    return %s\n" % returned
    (remark,) = remarks(BEGINNING + step + "for x, y in loader:\n    out = step(x, y)\n    n += out[1]\n")
    assert remark.text.startswith("out is of rank 0's part of the batch")


def test_a_whole_dictionary_that_is_printed_is_said() -> None:
    step = "def step(x, y):\n    loss = F.mse_loss(model(x), y)\n    loss.backward()\n"
    step += "    return {'a': loss.item(), 'n': len(y)}\n"
    (remark,) = remarks(BEGINNING + step + "for x, y in loader:\n    out = step(x, y)\n    print(out)\n")
    assert remark.text.startswith("out is of rank 0's part of the batch")


def test_a_figure_of_the_last_batch_after_the_loop() -> None:
    source = training() + "error = (out - y).abs().mean()\nprint(loss.item(), error)\n"
    assert "print(ddp.mean(loss).item(), ddp.mean(error))" in changed_lines(source)


def test_what_is_evaluated_is_whole_on_each_rank() -> None:
    source = training() + "for x, y in test_loader:\n    print(F.mse_loss(model(x), y).item())\n"
    assert not any("ddp.mean" in line for line in changed_lines(source))


@pytest.mark.parametrize("inside", ["continue", "print(loss.item())", "total += loss.item()"])
def test_a_condition_that_parts_the_ranks_is_refused(inside: str) -> None:
    (error,) = errors(training(told=f"if (y > 0).any(): {inside}"))
    assert error.line == 13 and "y is of each rank's part of the batch" in error.text


@pytest.mark.parametrize(
    "question",
    ["'mask' in x", "x.dim() == 4", "torch.is_tensor(x)", "x.requires_grad", "hasattr(x, 'y')", "x.ndim == 2"],
)
def test_a_question_that_all_ranks_answer_alike(question: str) -> None:
    assert figures(f"if {question}: print(loss.item())") == [f"if {question}: print(ddp.mean(loss).item())"]


@pytest.mark.parametrize("parts", ["x, y = batch", "x, y = batch['x'], batch['y']", "x, y = batch[0], batch[1]"])
def test_how_many_parts_a_batch_has_is_no_size(parts: str) -> None:
    loop = LOOP.replace("for x, y in loader:", f"for batch in loader:\n    if len(batch) == 2:\n        {parts}")
    lines = changed_lines(BEGINNING + loop % ("F.mse_loss(out, y)", "    count += len(y)"))
    assert "if len(batch) == 2:" not in lines and "count += ddp.total(len(y))" in lines
    assert not any("len(batch)" in line for line in lines)


def test_a_tensor_of_which_a_row_is_shown_has_a_size() -> None:
    assert "count += ddp.total(len(x))" in figures("count += len(x)\nshow(x[0])")


def test_a_condition_around_what_each_rank_may_do_by_itself_stays() -> None:
    assert figures("if (y > 0).any(): print(epoch)") == []


def test_the_loss_of_a_closure_is_all_ranks() -> None:
    loop = (
        "for x, y in loader:\n    def closure():\n        loss = F.mse_loss(model(x), y)\n"
        "        loss.backward()\n        return loss\n    optimizer.step(closure)\n"
    )
    assert "return ddp.mean(loss)" in changed_lines(BEGINNING + loop)


@pytest.mark.parametrize(
    "before", ["bar = tqdm(enumerate(loader))", "bar = enumerate(tqdm(loader))", "bar = zip(count(), loader)"]
)
def test_a_number_that_comes_with_a_batch_is_of_no_batch(before: str) -> None:
    loop = LOOP.replace("for x, y in loader", "for i, (x, y) in bar") % (
        "F.mse_loss(model(x), y)",
        "    if i > 3: break",
    )
    source = f"{BEGINNING}{before}\n{loop}    print(i, loss)\n"
    assert remarks(source) == [] and "print(i, ddp.mean(loss))" in changed_lines(source)


def test_a_loader_that_takes_its_own_name_in_a_function() -> None:
    function = "def run(model, loader):\n    loader = tqdm(loader)\n" + "    ".join(["", *LOOP.splitlines(True)])
    source = BEGINNING + function % ("F.mse_loss(out, y) * len(y)", "    print(loss.item())") + "run(model, loader)\n"
    assert "loader = tqdm(ddp.share(loader), disable=ddp.RANK != 0)" in changed_lines(source)
