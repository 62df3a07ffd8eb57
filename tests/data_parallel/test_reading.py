"""What is read from a loss's graph, and from the source of a loop."""

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from worldsize.wings.data_parallel.inrank.batch_slices import rank_batches, size_of, slice_of  # noqa: E402
from worldsize.wings.data_parallel.inrank.loop_purpose import ALWAYS, NEVER, UNKNOWN, training_verdict  # noqa: E402
from worldsize.wings.data_parallel.inrank.loss_graph import LossReading  # noqa: E402

LOCAL, TOTAL = 8, 32
weights = torch.randn(5, 3, requires_grad=True)
x = torch.randn(LOCAL, 5)
labels = torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
mask = torch.tensor([1.0, 0, 1, 1, 0, 1, 1, 1])


def out() -> Any:
    return x @ weights


def reading(loss: Any) -> LossReading:
    return LossReading(loss.grad_fn, LOCAL, TOTAL)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        ("mean", lambda: F.mse_loss(out(), torch.zeros(LOCAL, 3))),
        ("mean", lambda: F.l1_loss(out(), torch.zeros(LOCAL, 3)) / 4),
        ("mean", lambda: out().pow(2).sum(1).mean()),
        ("mean", lambda: out().pow(2).sum() / LOCAL),
        ("mean", lambda: out().pow(2).sum() * (1 / LOCAL)),
        ("mean", lambda: 0.5 * out().pow(2).sum() / out().numel()),
        ("mean", lambda: F.kl_div(out().log_softmax(1), torch.rand(LOCAL, 3), reduction="batchmean")),
        ("mean", lambda: out().mean() + 0.1 * weights.pow(2).sum()),
        ("mean", lambda: out().mean() + 0.1 * weights.norm()),
        ("mean", lambda: sum(out().mean() for _ in range(3))),
        ("sum", lambda: F.mse_loss(out(), torch.zeros(LOCAL, 3), reduction="sum")),
        ("sum", lambda: F.binary_cross_entropy(out().sigmoid(), torch.zeros(LOCAL, 3), reduction="sum") / TOTAL),
        ("sum", lambda: F.cross_entropy(out(), labels, reduction="sum")),
        ("sum", lambda: -0.5 * torch.sum(1 + out() - out().exp())),
        ("sum", lambda: ((x[:, 0] * weights[0, 0] - 1) ** 2).sum()),
        ("weighted", lambda: F.cross_entropy(out(), labels)),
        ("weighted", lambda: F.nll_loss(out().log_softmax(1), labels, weight=torch.tensor([1.0, 2, 3])) / 2),
        ("weighted", lambda: (F.cross_entropy(out(), labels, reduction="none") * mask).sum() / mask.sum()),
    ],
)
def test_what_a_loss_makes_of_its_batch(kind: str, loss: Any) -> None:
    found = reading(loss())
    assert (found.kind, found.bent, found.opaque) == (kind, [], [])


def test_a_penalty_on_weights_is_no_sum_over_the_batch() -> None:
    found = reading(F.mse_loss(out(), torch.zeros(LOCAL, 3), reduction="sum") + weights.pow(2).sum())
    assert len(found.sums) == 1


def test_a_mean_of_some_beside_other_terms_is_known_with_its_weight() -> None:
    found = reading((out().pow(2).sum(1) * mask).sum() / mask.sum() + out().mean())
    assert [float(count) for _, count in found.weighted] == [6.0] and found.means == 1


@pytest.mark.parametrize("loss", [lambda: out().pow(2).mean().sqrt(), lambda: (out() - 1).norm()])
def test_a_root_of_a_mean_is_told_apart(loss: Any) -> None:
    assert reading(loss()).bent


class Owner:
    def __init__(self) -> None:
        self.model = nn.Linear(2, 2)
        self.learns = False

    def step(self, batch: Any) -> Any:
        loss = self.model(batch).sum()
        if loss > 1e9:
            return None
        return self.follow(loss)

    def follow(self, loss: Any) -> None:
        loss.backward()

    def look(self, batch: Any) -> Any:
        return self.model(batch)


class Asking:
    """Gives one batch, and keeps what was read of the loop that asked."""

    def __init__(self) -> None:
        self.read: list[int] = []

    def __iter__(self) -> Any:
        self.read.append(training_verdict(sys._getframe(1)))
        return iter([torch.ones(1, 2)])


def endless(loader: Any) -> Any:
    while True:
        yield from loader


def test_what_a_loop_is_for() -> None:
    loader, owner = Asking(), Owner()
    for batch in loader:
        owner.step(batch)
    for batch in loader:
        owner.look(batch)
    for batch in enumerate(loader):
        if owner.learns:
            owner.step(batch)
    for learn in (True, False):
        for batch in loader:
            loss = owner.model(batch).sum()
            if learn:
                loss.backward()
    for batch in loader:
        loss = owner.model(batch).sum()
        if float(loss) > 0:
            loss.backward()
    [owner.look(batch) for batch in loader]
    [owner.step(batch) for batch in loader]
    for _, batch in zip(range(1), endless(loader)):  # noqa: B905
        with torch.enable_grad():
            owner.step(batch)
    step = functools.partial(functools.lru_cache(owner.step))
    for batch in loader:
        step(batch)
    for batch in loader:
        if 1:
            owner.step(batch)
    for batch in loader:
        if 0:
            owner.step(batch)
    assert loader.read == [
        ALWAYS, NEVER, NEVER, ALWAYS, NEVER, UNKNOWN, NEVER, ALWAYS, ALWAYS, ALWAYS, ALWAYS, NEVER,
    ]  # fmt: skip


def test_slices_of_whatever_a_batch_is() -> None:
    batch = {"x": torch.arange(8).view(4, 2), "names": ["a", "b", "c", "d"], "rest": [torch.arange(4), 3]}
    assert size_of(batch) == 4
    half = slice_of(batch, 4, 2, 2)
    assert half["x"].tolist() == [[4, 5], [6, 7]] and half["names"] == ["c", "d"]
    assert half["rest"][0].tolist() == [2, 3] and half["rest"][1] == 3
    assert size_of((torch.zeros(3, 2), torch.zeros(2, 3))) is None


@pytest.mark.parametrize(
    ("samples", "drop_last", "expected"),
    [(10, False, [[0, 4, 8], [1, 5, 9], [2, 6, 0], [3, 7, 1]]), (10, True, [[0, 4], [1, 5], [2, 6], [3, 7]]),
     (1, False, [[0], [0], [0], [0]]), (0, False, [[], [], [], []])],
)  # fmt: skip
def test_what_a_sampler_draws_is_shared_out_and_no_sooner_than_it_is_asked_for(
    samples: int, drop_last: bool, expected: list[list[int]]
) -> None:
    drawn: list[int] = []

    class Sampler(torch.utils.data.Sampler):  # type: ignore[misc]
        def __len__(self) -> int:
            return samples

        def __iter__(self) -> Any:
            drawn.append(samples)
            return iter(range(samples))

    loader = torch.utils.data.DataLoader(range(samples), sampler=Sampler(), batch_size=2, drop_last=drop_last)
    for rank in range(4):
        batches = rank_batches(loader, iter(loader.batch_sampler), rank, 4)
        assert len(drawn) == rank
        assert [index for batch in batches for index in batch] == expected[rank]


def test_of_a_batch_sampler_of_the_scripts_own_each_rank_takes_a_batch() -> None:
    own = [[0], [1, 2], [3], [4, 5], [6]]
    loader = torch.utils.data.DataLoader(range(7), batch_sampler=own)
    shares = [list(rank_batches(loader, iter(own), rank, 2)) for rank in range(2)]
    assert shares == [[[0], [3]], [[1, 2], [4, 5]]]
