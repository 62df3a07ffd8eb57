"""Published images per second of ResNet-50, read at the addresses in `source`, and never measured here.

"Expected" is what a plain training script of the framework reached on such a machine. "Best known" is what its makers
reached with every available optimisation (MLPerf's rules, DALI for the images, tuned layouts). A plain script is not
expected to reach it.
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple

_NVIDIA = "https://github.com/NVIDIA/DeepLearningExamples/blob/master/"
_TORCH = ("NVIDIA DeepLearningExamples, PyTorch", _NVIDIA + "PyTorch/Classification/ConvNets/resnet50v1.5/README.md")
_TENSORFLOW = (
    "NVIDIA DeepLearningExamples, TensorFlow with XLA",
    _NVIDIA + "TensorFlow/Classification/ConvNets/resnet50v1.5/README.md",
)
_MXNET = ("NVIDIA DeepLearningExamples, MXNet with DALI", _NVIDIA + "MxNet/Classification/RN50v1.5/README.md")
_PADDLE = (
    "NVIDIA DeepLearningExamples, PaddlePaddle with DALI",
    _NVIDIA + "PaddlePaddle/Classification/RN50v1.5/README.md",
)
_MLPERF = ("MLPerf Training 3.0, MXNet", "https://github.com/mlcommons/training_results_v3.0")
_AWS_BLOG = "https://aws.amazon.com/blogs/machine-learning/"
_AWS = (
    "AWS, TensorFlow with Horovod on p3.16xlarge",
    _AWS_BLOG + "scalable-multi-node-deep-learning-training-using-gpus-in-the-aws-cloud/",
)
_GOOGLE = (
    "TensorFlow, performance benchmarks",
    "https://github.com/tensorflow/docs/blob/master/site/en/r1/guide/performance/benchmarks.md",
)


class Published(NamedTuple):
    """Published figures of one kind of GPU, framework and precision.

    model, memory  words that the name of the GPU contains, as NVML reports it ("NVIDIA A100-SXM4-80GB")
    hardware       the machine, as its source calls it
    framework      a value of `--framework`; "" if `bench resnet50` has no such framework
    precision      "fp32", "tf32" (which PyTorch uses for 32-bit convolutions from Ampere on) or "fp16", mixed
    figures        images/s by the number of nodes and the number of GPUs of all nodes together
    best_known     whether the figures are "best known", not "expected"
    source         the name of the source, and its address
    data           "ImageNet", read and decoded, or "synthetic"
    """

    model: str
    memory: str
    hardware: str
    framework: str
    precision: str
    figures: dict[tuple[int, int], float]
    best_known: bool
    source: tuple[str, str]
    data: str = "ImageNet"


def _one_node(**figures: float) -> dict[tuple[int, int], float]:
    return {(1, int(name[1:])): value for name, value in figures.items()}


def _pair(
    gpu: tuple[str, str, str],
    source: tuple[str, str],
    framework: str,
    full: tuple[str, dict[tuple[int, int], float]],
    mixed: dict[tuple[int, int], float],
    best_known: bool = False,
) -> list[Published]:
    """Return the two Published entries of one table of a source: one in 32 bits (`full`, a precision and its figures),
    and one in mixed precision (`mixed`)."""
    return [
        Published(*gpu, framework, precision, figures, best_known, source)
        for precision, figures in (full, ("fp16", mixed))
    ]


_V100_16 = ("V100", "16GB", "DGX-1, V100 16 GB")
_V100_32 = ("V100", "32GB", "DGX-1, V100 32 GB")
_DGX2 = ("V100", "32GB", "DGX-2, V100 32 GB")
_A100_40 = ("A100", "40GB", "DGX A100, A100 40 GB")
_A100_80 = ("A100", "80GB", "DGX A100, A100 80 GB")
_H100 = ("H100", "80GB", "DGX H100, H100 80 GB")

PUBLISHED: tuple[Published, ...] = (
    *_pair(_V100_16, _TORCH, "torch", ("fp32", _one_node(g1=367, g8=2855)), _one_node(g1=1200, g8=8322)),
    *_pair(_V100_32, _TORCH, "torch", ("fp32", _one_node(g1=356, g8=2766)), _one_node(g1=1156, g8=8056)),
    *_pair(_A100_80, _TORCH, "torch", ("tf32", _one_node(g1=938, g8=7248)), _one_node(g1=2470, g8=16621)),
    *_pair(_V100_16, _TENSORFLOW, "tensorflow", ("fp32", _one_node(g1=412, g8=3170)), _one_node(g1=1270, g8=9510)),
    *_pair(_DGX2, _TENSORFLOW, "tensorflow", ("fp32", _one_node(g1=432, g16=6500)), _one_node(g1=1300, g16=17250)),
    *_pair(_A100_40, _TENSORFLOW, "tensorflow", ("tf32", _one_node(g1=909, g8=7000)), _one_node(g1=2375, g8=17400)),
    Published(
        "P100", "16GB", "DGX-1, P100 16 GB", "tensorflow", "fp32", _one_node(g1=142, g2=284, g4=569, g8=1131), False,
        _GOOGLE, "synthetic",
    ),
    Published(
        "V100", "16GB", "p3.16xlarge, V100 16 GB", "", "fp16",
        {**_one_node(g1=740, g2=1481, g8=5000), (2, 16): 9860, (4, 32): 21300}, True, _AWS,
    ),
    *_pair(
        _V100_16, _MXNET, "", ("fp32", _one_node(g1=384, g2=763, g4=1513, g8=3005)),
        _one_node(g1=1376, g2=2768, g4=5357, g8=10723), best_known=True,
    ),
    *_pair(
        _DGX2, _MXNET, "", ("fp32", _one_node(g1=417, g2=821, g4=1623, g8=3223, g16=6338)),
        _one_node(g1=1492, g2=2935, g4=5726, g8=11368, g16=21484), best_known=True,
    ),
    *_pair(
        _A100_80, _MXNET, "", ("tf32", _one_node(g1=1056, g4=4182, g8=8247)),
        _one_node(g1=3411, g4=13443, g8=26674), best_known=True,
    ),
    *_pair(
        _A100_80, _PADDLE, "", ("tf32", _one_node(g1=1024, g8=8013)), _one_node(g1=2897, g8=23874), best_known=True
    ),
    Published(*_H100, "", "fp16", {(1, 8): 56000, (8, 64): 294860}, True, _MLPERF),
)  # fmt: skip
