"""Which expressions give the batches that are trained with."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from conversions import BEGINNING, changed_lines, errors

STEP = "loss = F.cross_entropy(model(x), y); loss.backward(); optimizer.step()"


def shared(loop: str) -> list[str]:
    return [line for line in changed_lines(BEGINNING + loop) if "ddp.share" in line]


@pytest.mark.parametrize(
    ("loop", "line"),
    [
        ("for x, y in loader:", "for x, y in ddp.share(loader):"),
        ("for i, (x, y) in enumerate(loader):", "for i, (x, y) in enumerate(ddp.share(loader)):"),
        ("for i, (x, y) in enumerate(tqdm(loader)):", "enumerate(tqdm(ddp.share(loader), disable=ddp.RANK != 0)):"),
        ("for x, y in loaders['train']:", "for x, y in ddp.share(loaders['train']):"),
        ("for x, y in DataLoader(data, 8):", "for x, y in ddp.share(DataLoader(data, 8)):"),
        ("for (x, y), z in zip(loader, other):", "for (x, y), z in zip(ddp.share(loader), ddp.share(other)):"),
        ("for x, y in islice(loader, 3):", "for x, y in islice(ddp.share(loader), 3):"),
    ],
)
def test_what_a_loop_goes_through(loop: str, line: str) -> None:
    assert [line in each for each in shared(loop + "\n    %s\n" % STEP)] == [True]


def test_the_loader_of_an_iterator_is_shared_where_the_iterator_is_made() -> None:
    loop = "batches = iter(loader)\nfor i in range(9):\n    x, y = next(batches)\n    %s\n" % STEP
    assert shared(loop) == ["batches = iter(ddp.share(loader))"]


def test_a_generator_shares_what_it_goes_through() -> None:
    endless = "def endless(it):\n    while True:\n        for batch in it:\n            yield batch\n"
    loop = "batches = endless(loader)\nfor i in range(9):\n    x, y = next(batches)\n    %s\n" % STEP
    assert shared(endless + loop) == ["for batch in ddp.share(it):"]


def test_a_class_that_wraps_a_loader_shares_it_inside() -> None:
    wrapper = (
        "class Moved:\n    def __init__(self, it):\n        self.it = it\n"
        "    def __iter__(self):\n        for batch in self.it:\n            yield batch\n"
    )
    assert shared(wrapper + "moved = Moved(loader)\nfor x, y in moved:\n    %s\n" % STEP) == [
        "for batch in ddp.share(self.it):"
    ]


def test_a_class_that_is_a_loader_is_shared_itself() -> None:
    kind = "class Mine(DataLoader):\n    def __init__(self, data):\n        super().__init__(data, batch_size=8)\n"
    lines = shared(kind + "mine = Mine(data)\nfor x, y in mine:\n    %s\n" % STEP)
    assert lines == ["for x, y in ddp.share(mine):"]


def test_a_loop_that_evaluates_has_all_of_its_batches() -> None:
    loop = "for x, y in loader:\n    %s\nfor x, y in test_loader:\n    print(model(x))\n" % STEP
    assert shared(loop) == ["for x, y in ddp.share(loader):"]


def test_a_loop_over_loaders_is_not_shared_itself() -> None:
    loop = "for loader in (first, second):\n    for x, y in loader:\n        %s\n" % STEP
    assert shared(loop) == ["for x, y in ddp.share(loader):"]


def test_a_loop_over_parts_of_a_batch_is_not_shared() -> None:
    loop = "for batch in loader:\n    for x, y in batch:\n        %s\n" % STEP
    assert shared(loop) == ["for batch in ddp.share(loader):"]


def test_a_loop_in_another_file() -> None:
    train = "from engine import train\n" + BEGINNING + "for epoch in range(2):\n    train(model, loader, optimizer)\n"
    engine = "def train(model, loader, optimizer):\n    for x, y in loader:\n        %s\n" % STEP
    lines = changed_lines(train, engine=engine)
    assert "for x, y in ddp.share(loader):" in lines
    assert "optimizer = ddp.average_gradients(torch.optim.SGD(model.parameters(), lr=0.1), model)" in lines


def test_an_iterator_that_another_file_made() -> None:
    script = "from engine import train\n" + BEGINNING + "batches = iter(loader)\ntrain(model, batches, optimizer)\n"
    engine = "def train(model, it, optimizer):\n    for i in range(3):\n        x, y = next(it)\n        %s\n" % STEP
    assert "batches = iter(ddp.share(loader))" in changed_lines(script, engine=engine)


@pytest.mark.parametrize(
    ("loop", "line", "text"),
    [
        ("for i in range(9):\n    x, y = X[i:i + 8], Y[i:i + 8]\n    %s\n", 9, "batches are cut out of X here"),
        ("for i in range(9):\n    x, y = X[perm], Y[perm]\n    %s\n", 9, "batches are cut out of X here"),
        ("for i in range(9):\n    x, y = X, Y\n    %s\n", 10, "no loader was found"),
        (
            "class S(IterableDataset):\n    pass\nfor x, y in loader:\n    %s\n",
            8,
            "an IterableDataset cannot be divided",
        ),
        (
            "def run():\n    for x, y in loader:\n        %s\nmp.Process(target=run).start()\n",
            11,
            "in processes that it starts",
        ),
    ],
)
def test_what_is_no_loader_is_refused(loop: str, line: int, text: str) -> None:
    (error,) = errors(BEGINNING + loop % STEP)
    assert error.line == line and text in error.text
