"""Files, devices, downloads, progress bars; what is said of batch norms, noise, padding and sizes; the import."""

from __future__ import annotations

import pytest

pytest.importorskip("libcst")

from conversions import BEGINNING, changed_lines, figures, remarks, training

from worldsize.wings.convert.rewrite import convert_files

AROUND = {
    "torch.save(model, 'a.pt')": "ddp.main_only(torch.save)(model, 'a.pt')",
    "import torch as t\nt.save(model, 'a')": "ddp.main_only(t.save)(model, 'a')",
    "from torch import save as keep\nkeep(model, 'a')": "ddp.main_only(keep)(model, 'a')",
    "import numpy\nnumpy.savez('a', 1)": "ddp.main_only(numpy.savez)('a', 1)",
    "from torch import load\nstate = load('a')": "state = ddp.load('a')",
    "os.makedirs('a')": "ddp.main_only(os.makedirs)('a')",
    "f = Path('a').open('w')": "f = ddp.main_only(Path('a').open)('w')",
    "f = gzip.open('a', mode='wt')": "f = ddp.main_only(gzip.open)('a', mode='wt')",
    "logging.basicConfig(filename='a')": "ddp.main_only(logging.basicConfig)(filename='a')",
    "f = open('a', 'w')": "f = ddp.open_file('a', 'w')",
    "state = torch.load('a.pt')": "state = ddp.load('a.pt')",
    "d = CIFAR10('.', download=True)": "d = ddp.main_first(lambda: CIFAR10('.', download=True))",
    "device = torch.device('cuda:0')": 'device = torch.device(f"cuda:{ddp.LOCAL_RANK}")',
    "device = f'cuda:{args.gpu}'": 'device = f"cuda:{ddp.LOCAL_RANK}"',
    "model.cuda(0)": "model.cuda(ddp.LOCAL_RANK)",
    "torch.cuda.set_device(args.gpu)": "torch.cuda.set_device(ddp.LOCAL_RANK)",
    "bar = tqdm(names)": "bar = tqdm(names, disable=ddp.RANK != 0)",
    "net = nn.DataParallel(model)\nstate = net.module": "net = model\nstate = net",
}
DOUBTS = {
    "layer = nn.BatchNorm2d(3)": "BatchNorm computes its statistics from each rank's part",
    "layer = nn.Dropout(0.5)": "each rank draws its own random numbers",
    "z = torch.randn(len(x), 3)": "each rank draws its own random numbers",
    "p = pad_sequence(parts)": "each rank pads its part of a batch",
    "ones = torch.ones(args.batch_size, 1)": "args.batch_size is the whole batch's size",
    "os.environ['CUDA_VISIBLE_DEVICES'] = '0'": "every rank has its own",
}


@pytest.mark.parametrize("line", AROUND)
def test_what_only_one_rank_does_or_each_has_for_itself(line: str) -> None:
    assert figures(line) == AROUND[line].splitlines()
    assert remarks(training(told=line)) == []


@pytest.mark.parametrize(
    "line",
    [
        "f = open('a')",
        "f = open('a', 'rb')",
        "f = path.open('rb')",
        "image = Image.open(x)",
        "layer = nn.Dropout(0)",
        "model.cuda()",
    ],
)
def test_what_stays(line: str) -> None:
    assert figures(line) == [] and remarks(training(told=line)) == []


@pytest.mark.parametrize("line", DOUBTS)
def test_what_makes_figures_differ_is_said_once(line: str) -> None:
    (remark,) = remarks(training(told=line + "\n" + line if "environ" not in line else line))
    assert remark.line == 13 and DOUBTS[line] in remark.text


def test_whether_a_checkpoint_is_there_is_rank_0s_answer() -> None:
    lines = changed_lines(training() + "if os.path.exists(path):\n    model.load_state_dict(torch.load(path))\n")
    assert "if ddp.as_on_main(os.path.exists(path)):" in lines


def test_a_file_of_a_training_that_writes_some_is_read_when_rank_0_has_written() -> None:
    assert figures("f = open(a, 'w')\ng = open(a)") == ["f = ddp.open_file(a, 'w')", "g = ddp.open_file(a)"]


def test_a_data_set_loads_its_samples_without_the_others() -> None:
    source = "class D:\n    def __getitem__(self, i):\n        return torch.load(self.names[i])\n" + training()
    assert not any("ddp.load" in line for line in changed_lines(source))


@pytest.mark.parametrize(
    ("start", "import_there", "lines"),
    [
        ("train.py", "from pkg.engine import train", ("import ddp", "import ddp")),
        ("pkg/train.py", "from .engine import train", ("from . import ddp", "from . import ddp")),
        ("pkg/cli/train.py", "from ..engine import train", ("from . import ddp", "from .cli import ddp")),
    ],
)
def test_the_helpers_are_imported_from_where_they_lie(start: str, import_there: str, lines: tuple[str, str]) -> None:
    engine = (
        "def train(model, loader, optimizer):\n    for x, y in loader:\n        F.mse_loss(model(x), y).backward()\n"
    )
    sources = {start: import_there + "\n" + BEGINNING + "train(model, loader, optimizer)\n", "pkg/engine.py": engine}
    texts = convert_files(sources).texts
    assert tuple(line in texts[path].splitlines() for path, line in zip(sources, lines, strict=True)) == (True, True)


def test_what_distributes_itself_is_left_alone() -> None:
    converted = convert_files({"train.py": "import torch\nmodel = DistributedDataParallel(model)\n"})
    assert converted.texts == {} and converted.reason is not None and "train.py:2" in converted.reason


def test_a_buffer_that_the_batch_updates_is_said() -> None:
    model = (
        "class Net(nn.Module):\n    def __init__(self):\n        self.register_buffer('centre', torch.zeros(3))\n"
        "    def forward(self, x):\n        self.centre.mul_(0.9).add_(x.mean(0), alpha=0.1)\n        return x\n"
    )
    (remark,) = remarks(model + training().replace("model = nn.Linear(4, 3)", "model = Net()"))
    assert remark.line == 5 and remark.text.startswith("self.centre is updated from each rank's part")


@pytest.mark.parametrize(
    ("condition", "decided"),
    [
        ("time.time() - start > 9", "ddp.as_on_main(time.time() - start > 9)"),
        ("epoch > 3 and elapsed > 9", "epoch > 3 and ddp.as_on_main(elapsed > 9)"),
        ("os.path.exists('stop')", "ddp.as_on_main(os.path.exists('stop'))"),
        ("torch.rand(1) < 0.5", "ddp.as_on_main(torch.rand(1) < 0.5)"),
    ],
)
def test_rank_0_decides_what_each_rank_would_answer_for_itself(condition: str, decided: str) -> None:
    lines = "elapsed = time.time() - start\nif %s: break"
    assert f"if {decided}: break" in figures(lines % condition)
    assert f"if {decided}: print(ddp.mean(loss))" in figures(lines.replace("break", "print(loss)") % condition)
    assert not any("as_on_main" in line for line in figures(lines.replace("break", "print(epoch)") % condition))
