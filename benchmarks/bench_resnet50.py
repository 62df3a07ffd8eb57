"""The steps that `worldsize bench resnet50` times against a bare loop of the same network: one process, one thread.

Both run in turns in one process (programs/resnet50_pairs.py), so that whatever else the machine does meets both;
seconds are those of its CPU. Once with a small network, where what surrounds a step weighs most, and once with the real
one.
"""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import sys

from harness import CHECKOUT, Bench, contest_rows, ratio, run

PAIRS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs", "resnet50_pairs.py")
RANKS = os.path.join(CHECKOUT, "src", "worldsize", "wings", "bench", "resnet50", "ranks")
SMALL = ("32 × 32, 8 channels, batch 8", (32, 8, 8))
REAL = ("224 × 224, 64 channels, batch 4", (224, 64, 4))


def main() -> None:
    with Bench("resnet50", __doc__) as bench:
        if importlib.util.find_spec("torch") is None:
            sys.exit("bench_resnet50.py needs torch: run it with .venv/bin/python after `make setup`")
        everything = {}
        for (name, shape), steps, pairs in ((SMALL, 4, bench.count(60, 5)), (REAL, 1, bench.count(12, 2))):
            sample = measure(bench, [*shape, steps, pairs])
            everything[name] = sample
            rates = ", ".join("%s %.3g" % (who, shape[2] * steps / statistics.median(sample[who])) for who in sample)
            title = "Steps of ResNet-50, %s, in blocks of %d; images/s: %s" % (name, steps, rates)
            head = ["loop", "median block, ms", "10 % to 90 %", "over a bare loop"]
            bench.table(title, head, contest_rows(sample, ["bare"]))
            bench.limit("%s: a step over a bare loop's" % name, ratio(sample, "bench", "bare").median, 1.03)
        bench.finish(everything)


def measure(bench: Bench, shape: list[int]) -> dict[str, list[float]]:
    """Seconds of each block, of both loops."""
    target = os.path.join(bench.work, "pairs.json")
    run([sys.executable, PAIRS, RANKS, *map(str, shape)], bench.environ(OMP_NUM_THREADS="1"), bench.work, target)
    with open(target, encoding="utf-8") as file:
        found = json.load(file)
    assert found["threads"] == 1
    return {"bench": found["bench"], "bare": found["bare"]}


if __name__ == "__main__":
    main()
