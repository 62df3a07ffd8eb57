"""Published figures stand beside a world of the same GPUs, as many, in the same precision; beside no other."""

from __future__ import annotations

from urllib.parse import urlparse

import pytest
from bench_results import measured, result_of

from worldsize.wings.bench.published.figures import PUBLISHED
from worldsize.wings.bench.published.matching import (
    published_lines,
    published_matches,
    published_sentences,
    published_sources,
    published_table,
)

A100 = "NVIDIA A100-SXM4-80GB"
TESLA = "Tesla V100-SXM2-16GB"


def figures(world="1x8", device=A100, rate=7000, settings=None, **more):
    settings = {"framework": "torch", "precision": "fp32", **(settings or {})}
    gpus = int(world[0]) * int(world[2:])
    run = measured(world, rate, gpus=gpus, details={"device": device})
    found = published_matches(result_of(run, settings=settings, **more))
    return sorted(match.figure for match in found if not match.published.best_known)


def test_32_bits_are_those_of_tf32_from_ampere_on_unless_that_is_off():
    assert figures() == [7248]
    assert figures(settings={"precision": "fp32 (TF32)"}) == [7248]
    assert figures(settings={"tf32": "off"}) == []
    assert figures(device=TESLA) == [2855, 3170]


def test_what_ranks_say_of_tf32_counts_before_the_settings():
    run = measured("1x8", 7000, gpus=8, details={"device": A100, "tf32": "off"})
    assert published_matches(result_of(run, settings={"precision": "fp32"})) == []
    assert published_matches(result_of(run, settings={"precision": "fp16"})) != []


@pytest.mark.parametrize(("precision", "found"), [("fp16", [16621]), ("bf16", []), ("", [])])
def test_the_precision_must_be_the_same(precision, found):
    assert figures(settings={"precision": precision}) == found


@pytest.mark.parametrize(
    ("device", "found"),
    [
        ("NVIDIA A100-SXM4-40GB", [7000]),
        ("Tesla V100-SXM2-32GB", [2766]),
        ("NVIDIA A100 80GB PCIe", [7248]),
        ("NVIDIA GeForce RTX 4090", []),
        ("AMD Instinct MI250X", []),
        ("cpu", []),
        ("", []),
    ],
)
def test_the_gpu_must_be_the_same_with_its_memory(device, found):
    assert figures(device=device) == found


@pytest.mark.parametrize("world", ["1x2", "1x7", "2x4", "8x1"])
def test_as_many_gpus_on_other_nodes_are_something_else(world):
    assert figures(world) == []


def test_other_than_standard_settings_are_compared_with_nothing():
    assert figures(title="ResNet-50, 32 × 32 images: tiny settings, no ResNet-50 figure") == []
    assert figures(kind="job") == []


def test_an_oversubscribed_or_failed_world_is_compared_with_nothing():
    for more in ({"oversubscribed": "9 ranks, 8 GPUs"}, {"failure": "no"}):
        run = measured("1x8", 7000, gpus=8, details={"device": A100}, **more)
        assert published_matches(result_of(run, settings={"framework": "torch", "precision": "fp32"})) == []


def test_what_nodes_say_names_the_gpu_where_ranks_do_not():
    run = measured("1x1", 900, gpus=1)
    assert published_matches(result_of(run, settings={"precision": "fp32"}, hardware=(("GPU", "1 × " + A100),)))
    assert published_matches(result_of(run._replace(details={"device": 7}), settings={"precision": "fp32"})) == []


def shown():
    run = measured("1x8", 15900, gpus=8, details={"device": A100})
    return result_of(run, measured("1x1", 2400, gpus=1, details={"device": A100}))


def test_expected_stands_before_best_known_and_the_sentence_is_of_the_expected_alone():
    table = published_table(shown())
    kinds = [row[table.headers.index("what it is")] for row in table.rows]
    assert kinds == ["expected"] * 2 + ["best known"] * 4
    assert "read, not measured" in table.caption
    (sentence,) = published_sentences(shown())
    assert sentence.startswith("1x8 does 96 % of the 16,621 images/s") and "MXNet" not in sentence
    assert published_sentences(shown()._replace(settings={"framework": "horovod", "precision": "fp16"})) == ()
    assert published_sentences(shown()._replace(settings={"precision": "fp16"})) == ()


def test_lines_of_a_chart_end_with_the_largest_world_that_was_measured():
    lines = published_lines(shown())
    assert [name for name, _, _ in lines] == [
        "expected: PyTorch", "best known: MXNet with DALI", "best known: PaddlePaddle with DALI"
    ]  # fmt: skip
    assert lines[0][1:] == ([1.0, 8.0], [2470, 16621])
    alone = result_of(measured("1x1", 2400, gpus=1, details={"device": A100}))
    assert published_lines(alone)[0][1:] == ([1.0], [2470])


def test_nothing_is_said_where_nothing_matches():
    other = result_of(measured("1x1", 100))
    assert published_table(other) is None and published_sentences(other) == ()
    assert published_lines(other) == [] and published_sources(other) == {}


def test_each_figure_has_a_source_and_grows_with_its_gpus():
    for each in PUBLISHED:
        link = urlparse(each.source[1])
        assert (link.scheme, bool(link.netloc), bool(each.source[0])) == ("https", True, True)
        assert each.precision in ("fp32", "tf32", "fp16") and each.framework in ("torch", "tensorflow", "")
        assert all(gpus % nodes == 0 for nodes, gpus in each.figures)
        rates = [rate / gpus for (_, gpus), rate in sorted(each.figures.items())]
        assert max(rates) < 2 * min(rates), each.source
    assert len({(p.source[0], p.hardware, p.precision) for p in PUBLISHED}) == len(PUBLISHED)
