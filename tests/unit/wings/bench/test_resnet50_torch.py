"""The network of `bench resnet50` in PyTorch, and the images that it is trained with."""

from __future__ import annotations

import argparse

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("PIL")

from worldsize.wings.bench.resnet50.ranks.resnet50 import torch_images, torch_network, torch_training  # noqa: E402

pytestmark = pytest.mark.slow


def test_the_network_has_the_parameters_of_resnet_50_and_halves_images_five_times():
    network = torch_network.build_network().eval()
    assert torch_network.count_parameters(network) == torch_network.PARAMETERS == 25_557_032
    assert len([each for each in network.modules() if isinstance(each, torch.nn.Conv2d)]) == 53
    with torch.no_grad():
        images = torch.zeros(1, 3, 64, 64)
        assert network[:-3](images).shape == (1, 2048, 2, 2)
        assert network(images).shape == (1, 1000)


def test_the_stride_is_in_the_convolution_of_three_by_three():
    block = torch_network.Bottleneck(8, 4, 2)
    strides = [each.stride[0] for each in block.residual if isinstance(each, torch.nn.Conv2d)]
    assert strides == [1, 2, 1]


def test_crops_lie_in_the_image():
    for width, height in ((500, 375), (1, 1), (3000, 10)):
        for _ in range(200):
            left, top, right, bottom = torch_images.random_crop(width, height)
            assert 0 <= left < right <= width + 1e-6
            assert 0 <= top < bottom <= height + 1e-6


def test_generated_files_are_photographs_in_size_and_every_rank_sees_its_own(tmp_path):
    content = torch_images.encode_jpeg(500, 375, bytes(range(48)))
    assert content.startswith(b"\xff\xd8\xff")
    assert 50_000 < len(content) < 200_000
    path = tmp_path / "image.jpg"
    path.write_bytes(content)
    pixels, label = torch_images.ImageFolder([(str(path), 3)], 32)[0]
    assert (pixels.shape, pixels.dtype, label) == ((32, 32, 3), torch.uint8, 3)
    of_ranks = [iter(torch_images.EndlessShare(5, rank, 2)) for rank in range(2)]
    first, second = ([next(share) for _ in range(count)] for share, count in zip(of_ranks, (3, 2), strict=True))
    assert sorted(first + second) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("number", "text"), [(90100, "9.1.0"), (8902, "8.9.2"), (91002, "9.10.2"), (7605, "7.6.5")])
def test_versions_of_cudnn_are_spelled_out(number, text):
    assert torch_training.cudnn_text(number) == text


def test_a_damaged_image_is_named_in_one_line(tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "damaged.jpg").write_bytes(b"no image")
    said = argparse.Namespace(image_size=32, batch=1, workers=1)
    batches = torch_images.image_batches(said, str(tmp_path), (0, 1), torch.device("cpu"), torch.contiguous_format)
    with pytest.raises(torch_images.DamagedImage) as raised:
        next(batches)
    assert str(raised.value).startswith("--data: %s/class/damaged.jpg cannot be decoded: Unidentified" % tmp_path)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("cuda", "capability", "override", "found"),
    [("12.6", 8, None, True), ("12.6", 7, None, False), (None, 9, None, False), ("12.6", 9, "0", False)],
)
def test_tf32_is_of_gpus_that_have_it_where_nobody_forbids_it(monkeypatch, cuda, capability, override, found):
    monkeypatch.setattr(torch.version, "cuda", cuda)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (capability, 0))
    monkeypatch.delenv("NVIDIA_TF32_OVERRIDE", raising=False)
    if override is not None:
        monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", override)
    assert torch_training._has_tf32(torch.device("cpu")) is found


def test_a_gpu_without_bf16_is_told(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla V100")
    said = argparse.Namespace(share="1/1", precision="bf16", image_size=224, batch=8)
    with pytest.raises(SystemExit, match="Tesla V100 has no bf16"):
        torch_training.prepare_device(said, torch.device("cuda"))
