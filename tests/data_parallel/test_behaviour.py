"""What ranks share, what they do apart, what they leave alone, and what is refused rather than trained wrongly."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("torch")

from trainings import Trainings

pytestmark = pytest.mark.timeout(300)

HEAD = """\
import os, torch, torch.distributed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(24.0).view(24, 1), torch.randn(24, 1))
model = nn.Sequential(nn.Linear(1, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
"""

LOOP = """
for x, y in DataLoader(data, batch_size=4):
    loss = nn.functional.mse_loss(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""

EACH_ITS_OWN = """
print("begin", [round(p.sum().item(), 6) for p in model.parameters()])
loader = DataLoader(data, batch_size=4, shuffle=True)
os.makedirs("made/there")
for epoch in range(2):
    for x, y in loader:
        with torch._C.DisableTorchFunction():  # what the rank has, and not the whole batch's figures
            print("saw", len(loader), x.flatten().int().tolist())
        noise = nn.functional.dropout(torch.ones(64))
        print("dropout", noise.bool().int().tolist())
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with open("outputs/log.txt", "a") as file:
        file.write("epoch %d\\n" % epoch)
    with open("outputs/log.txt") as file:
        assert file.read().count("epoch") == epoch + 1
    torch.save(model.state_dict(), "outputs/model.pt")
    torch.load("outputs/model.pt")
model.eval()
for x, y in DataLoader(data, batch_size=5):
    print("tested", len(x))
print("end", [round(t.double().sum().item(), 9) for t in model.state_dict().values()])
"""


def printed(text: str, word: str) -> list[str]:
    return re.findall(r"^%s (.*)$" % word, text, re.MULTILINE)


@pytest.mark.exhaustive(unless=["scale"])
@pytest.mark.parametrize("mode", ["split", "scale"])
def test_what_ranks_share_and_what_they_do_apart(trainings: Trainings, mode: str) -> None:
    trainings.cli.write("train.py", HEAD + EACH_ITS_OWN)
    run = trainings.parallel("1x2", "train.py", mode=mode)
    first, second = (trainings.log(run, rank) for rank in (0, 1))
    for word in ("begin", "tested", "end"):
        assert printed(first, word) == printed(second, word)
    assert all(mine != other for mine, other in zip(printed(first, "dropout"), printed(second, "dropout"), strict=True))
    seen = [[eval(line) for line in re.findall(r"\[.*\]", " \n".join(printed(log, "saw")))] for log in (first, second)]
    length, steps = (6, 12) if mode == "split" else (3, 6)
    assert len(seen[0]) == len(seen[1]) == steps and printed(first, "saw")[0].startswith("%d " % length)
    for epoch in (0, 1):
        half = slice(epoch * steps // 2, (epoch + 1) * steps // 2)
        assert sorted(number for batch in seen[0][half] + seen[1][half] for number in batch) == list(range(24))
    assert seen[0][: steps // 2] != seen[0][steps // 2 :]
    assert "BatchNorm sees a rank's slice" in first
    assert trainings.cli.read(run, "code", "outputs", "log.txt") == "epoch 0\nepoch 1\n"


SAMPLES_DRAWN = """
class Drawn(torch.utils.data.Dataset):
    def __len__(self):
        return 16

    def __getitem__(self, index):
        state = torch.get_rng_state()
        torch.manual_seed(index)
        x = torch.randn(1)
        torch.set_rng_state(state)
        flip, turn = torch.rand(1), torch.randint(0, 1000000, size=(1,))
        return index, x, flip, turn

for index, x, flip, turn in DataLoader(Drawn(), batch_size=4):
    expected = [torch.randn(1, generator=torch.Generator().manual_seed(i)).item() for i in index.tolist()]
    assert x.flatten().tolist() == expected
    with torch._C.DisableTorchFunction():
        print("flip", flip.flatten().tolist(), turn.flatten().tolist())
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
"""


@pytest.mark.exhaustive
def test_what_a_data_set_draws_is_of_its_sample_and_of_one_rank(trainings: Trainings) -> None:
    trainings.cli.write("train.py", HEAD + SAMPLES_DRAWN)
    run = trainings.parallel("1x2", "train.py")
    first, second = (printed(trainings.log(run, rank), "flip") for rank in (0, 1))
    assert len(first) == 4 and all(mine != other for mine, other in zip(first, second, strict=True))


KEPT = """
import shutil, time

class Slow:
    def __reduce__(self):
        time.sleep(0.5)
        return int, ()

def keep(epoch):
    torch.save({"epoch": epoch, "slow": Slow()}, "outputs/part.pt")
    os.replace("outputs/part.pt", "outputs/last.pt")
    shutil.copy("outputs/last.pt", "outputs/best.pt")

def kept():
    return [torch.load("outputs/%s.pt" % name, weights_only=False)["epoch"] for name in ("best", "last")]

keep(-1)
for epoch in range(2):
    for x, y in DataLoader(data, batch_size=4):
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), y).backward()
        optimizer.step()
    keep(epoch)
    print("kept", kept())
"""


@pytest.mark.exhaustive
def test_what_is_saved_can_be_moved_copied_and_loaded_at_once(trainings: Trainings) -> None:
    trainings.cli.write("train.py", HEAD + KEPT)
    run = trainings.parallel("1x2", "train.py")
    assert [printed(trainings.log(run, rank), "kept") for rank in (0, 1)] == [["[0, 0]", "[1, 1]"]] * 2


OWN_GROUP = """
torch.distributed.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
for x, y in DataLoader(data, batch_size=4):
    assert len(x) == 4
    model(x).mean().backward()
torch.distributed.destroy_process_group()
print("ranks", torch.distributed.is_available())
"""


LOADED_LATE = """
import time

torch.save(model.state_dict(), "outputs/model.pt")
time.sleep(3 * int(os.environ["RANK"]))
print("loaded", len(torch.load("outputs/model.pt")))
"""


@pytest.mark.exhaustive
def test_a_rank_may_load_what_was_saved_when_rank_0_has_nothing_more_to_do(trainings: Trainings) -> None:
    trainings.cli.write("train.py", HEAD + LOOP + LOADED_LATE)
    run = trainings.parallel("1x2", "train.py")
    assert [printed(trainings.log(run, rank), "loaded") for rank in (0, 1)] == [["9"], ["9"]]


@pytest.mark.exhaustive
def test_a_script_that_distributes_itself_is_left_alone(trainings: Trainings) -> None:
    trainings.cli.write("train.py", HEAD + OWN_GROUP)
    log = trainings.log(trainings.parallel("1x2", "train.py"))
    assert "distributes itself, and is unchanged" in log and "ranks True" in log


OWN_BATCHES = """
for _ in range(20):
    optimizer.zero_grad()
    model(torch.randn(8, 1)).mean().backward()
    optimizer.step()
"""
BY_HAND = """
for _ in range(20):
    model.zero_grad()
    model(torch.randn(8, 1)).mean().backward()
    with torch.no_grad():
        for weight in model.parameters():
            weight -= 0.1 * weight.grad
"""
COMPILED = """
@torch.compile(backend="eager")
def root(x, y):
    return nn.functional.mse_loss(model(x), y).sqrt()

for x, y in DataLoader(data, batch_size=4):
    root(x, y).backward()
    optimizer.step()
"""
REFUSED = {
    "after 3 steps no batch has been divided: every rank would do the same work": OWN_BATCHES,
    "after 10 backwards no batch has been divided: every rank would do the same work": BY_HAND,
    "the loss is not a sum or a mean over its batch": COMPILED,
    "the ranks' weights have drifted apart": LOOP.replace(
        "    optimizer.step()", "    model[0].bias.grad += 10 * int(os.environ['RANK'])\n    optimizer.step()"
    ),
    "a hook on a weight's gradient": "model[0].weight.register_hook(lambda gradient: gradient.clamp(-1, 1))" + LOOP,
    "makes a process group after the training has begun": LOOP + "    torch.distributed.init_process_group('gloo')\n",
    "the ranks began with different weights": LOOP.replace(
        "    loss =",
        "    model[0] = nn.Linear(1, 4)\n    nn.init.constant_(model[0].bias, float(os.environ['RANK']))\n    loss =",
    ),
}


@pytest.mark.exhaustive(unless=["the loss is not a sum or a mean over its batch"])
@pytest.mark.parametrize("reason", REFUSED)
def test_what_would_be_trained_wrongly_is_refused_with_its_line(trainings: Trainings, reason: str) -> None:
    trainings.cli.write("train.py", HEAD + REFUSED[reason])
    run = trainings.parallel("1x2", "train.py", code=2)
    log = trainings.log(run) + trainings.log(run, 1)  # the first to refuse may end the other before it has
    assert re.search(r"Refused: \S*train\.py:\d+: .*%s" % reason, log) and "\n  -> " in log
    if reason.endswith("the same work"):
        assert "x, y = worldsize.shard(x, y)" in log


SIZE_AS_A_NUMBER = """
lstm = nn.LSTM(1, 2, batch_first=True)
for x, y in DataLoader(data, batch_size=4):
    lstm(x.unsqueeze(1), (torch.zeros(1, 4, 2), torch.zeros(1, 4, 2)))
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.mark.exhaustive
def test_after_an_error_over_sizes_it_is_told_that_batches_are_cut(trainings: Trainings) -> None:
    trainings.cli.write("train.py", HEAD + SIZE_AS_A_NUMBER)
    log = trainings.log(trainings.parallel("1x2", "train.py", code=1))
    assert "Expected hidden" in log and "each rank has 2 of a batch's 4 samples: an error over sizes" in log
