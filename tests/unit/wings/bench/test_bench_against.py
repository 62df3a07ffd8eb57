"""A result beside an earlier one."""

from __future__ import annotations

from bench_results import measured, result_of

from worldsize.wings.bench.output.against import comparison_sentences, comparison_table


def compare(now, before):
    table = comparison_table(now, before)
    return [list(row) for row in table.rows] if table else None, list(comparison_sentences(now, before))


def test_worlds_of_both_stand_beside_each_other_with_what_their_spreads_leave():
    now = result_of(measured("1x1", 110), measured("1x2", 200, 0.1), measured("1x4", 300, 0), measured("1x8", 400))
    before = result_of(measured("1x1", 100), measured("1x2", 205, 0.1), measured("1x4", 330), measured("2x8", 1))
    rows, sentences = compare(now, before)
    assert [(row[0], row[3].split(" ")[0], row[4]) for row in rows] == [
        ("1x1", "1.10", "faster"), ("1x2", "0.976", "within the spread"), ("1x4", "0.909", "–")
    ]  # fmt: skip
    assert rows[0][1] == "110 (109–111)" and rows[2][1] == "300"
    assert sentences == []
    assert [row[4] for row in compare(before, now)[0]] == ["slower", "within the spread", "–"]


def test_slower_is_said():
    rows, _ = compare(result_of(measured("1x1", 90)), result_of(measured("1x1", 100)))
    assert rows == [["1x1", "90.0 (89.5–90.4)", "100 (99.5–100)", "0.900 (0.891–0.909)", "slower"]]


def test_what_else_differs_is_told():
    now = result_of(
        measured("1x1", 100), settings={"batch": "64", "steps": "20"},
        hardware=(("GPU", "A100"), ("CPU", "a"), ("CPU", "b")), software=(("NCCL", "2.27"),), worldsize="2",
    )  # fmt: skip
    before = result_of(
        measured("1x1", 100), settings={"batch": "128", "steps": "20"}, hardware=(("GPU", "V100"), ("CPU", "a")),
    )  # fmt: skip
    assert compare(now, before)[1] == [
        "Not the same: batch 64, before 128.",
        "Not the same: GPU A100, before V100.",
        "Not the same: CPU a and b, before a.",
        "Not the same: NCCL 2.27, before missing.",
        "Not the same: worldsize 2, before 1.0.",
    ]


def test_of_many_differences_the_first_are_told_and_values_are_cut():
    now = result_of(measured("1x1", 100), settings={str(i): "x" * 500 for i in range(100)})
    sentences = compare(now, result_of(measured("1x1", 100), settings={}))[1]
    assert len(sentences) == 13 and sentences[-1] == "Not the same: 88 more."
    assert max(map(len, sentences)) < 120


def test_what_cannot_be_compared_is_one_sentence():
    now = result_of(measured("1x1", 100))
    for more in ({"kind": "job"}, {"unit": "steps/s"}, {"scaling": "strong"}):
        rows, sentences = compare(now, result_of(measured("1x1", 100), settings={"a": "b"}, **more))
        assert rows is None and len(sentences) == 1 and sentences[0].startswith("Nothing is compared: that result")
    rows, sentences = compare(now, result_of(measured("1x2", 100)))
    assert rows is None and sentences == ["Nothing is compared: no world was measured in both."]
