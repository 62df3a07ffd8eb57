"""Sizes of Azure's virtual machines for training, and the hardware of each.

The values come from public descriptions of the sizes, and were not measured on machines. In the names, an `r` after the
number of cores means a separate network for RDMA. A size that is missing here is not checked.

Standard library only: travels inside agent.pyz (Python >= 3.8).
"""

from __future__ import annotations

from worldsize.common.named_tuple import NamedTuple


class AzureSize(NamedTuple):
    """The hardware of a size. `gpus` is the number of whole GPUs, `memory_gib` the memory of the machine, `ports` the
    number of InfiniBand ports for RDMA (0 without), and `gbps` the rate of each port."""

    gpus: int
    gpu: str
    memory_gib: int
    ports: int = 0
    gbps: int = 0


_H100, _H200, _A100, _A100_40 = "H100 80 GB", "H200 141 GB", "A100 80 GB", "A100 40 GB"
_V100, _V100_32, _T4, _A10 = "V100 16 GB", "V100 32 GB", "T4 16 GB", "A10 24 GB"

SIZES = {
    "standard_nd128isr_ndr_gb200_v6": AzureSize(4, "GB200", 864, 4, 400),
    "standard_nd128isr_gb300_v6": AzureSize(4, "GB300", 864, 4, 800),
    "standard_nd96isr_h200_v5": AzureSize(8, _H200, 1850, 8, 400),
    "standard_nd96isrf_h200_v5": AzureSize(8, _H200, 1850, 8, 400),
    "standard_nd96is_h200_v5": AzureSize(8, _H200, 1850),
    "standard_nd96isr_h100_v5": AzureSize(8, _H100, 1900, 8, 400),
    "standard_nd96isrf_h100_v5": AzureSize(8, _H100, 1900, 8, 400),
    "standard_nd96is_h100_v5": AzureSize(8, _H100, 1900),
    "standard_nd96isr_mi300x_v5": AzureSize(8, "MI300X 192 GB", 1850, 8, 400),
    "standard_nd96is_mi300x_v5": AzureSize(8, "MI300X 192 GB", 1850),
    "standard_nd96amsr_a100_v4": AzureSize(8, _A100, 1900, 8, 200),
    "standard_nd96ams_a100_v4": AzureSize(8, _A100, 1900),
    "standard_nd96asr_v4": AzureSize(8, _A100_40, 900, 8, 200),
    "standard_nd96asr_a100_v4": AzureSize(8, _A100_40, 900, 8, 200),
    "standard_nd40rs_v2": AzureSize(8, _V100_32, 672, 1, 100),
    "standard_nc24rs_v3": AzureSize(4, _V100, 448, 1, 56),
    "standard_nc24s_v3": AzureSize(4, _V100, 448),
    "standard_nc12s_v3": AzureSize(2, _V100, 224),
    "standard_nc6s_v3": AzureSize(1, _V100, 112),
    "standard_nc24ads_a100_v4": AzureSize(1, _A100, 220),
    "standard_nc48ads_a100_v4": AzureSize(2, _A100, 440),
    "standard_nc96ads_a100_v4": AzureSize(4, _A100, 880),
    "standard_nc40ads_h100_v5": AzureSize(1, "H100 NVL 94 GB", 320),
    "standard_nc80adis_h100_v5": AzureSize(2, "H100 NVL 94 GB", 640),
    "standard_nc4as_t4_v3": AzureSize(1, _T4, 28),
    "standard_nc8as_t4_v3": AzureSize(1, _T4, 56),
    "standard_nc16as_t4_v3": AzureSize(1, _T4, 110),
    "standard_nc64as_t4_v3": AzureSize(4, _T4, 440),
    "standard_nv36ads_a10_v5": AzureSize(1, _A10, 440),
    "standard_nv36adms_a10_v5": AzureSize(1, _A10, 880),
    "standard_nv72ads_a10_v5": AzureSize(2, _A10, 880),
    "standard_hb60rs": AzureSize(0, "", 228, 1, 100),
    "standard_hc44rs": AzureSize(0, "", 352, 1, 100),
    "standard_hb120rs_v2": AzureSize(0, "", 456, 1, 200),
    "standard_hb120rs_v3": AzureSize(0, "", 448, 1, 200),
    "standard_hb176rs_v4": AzureSize(0, "", 768, 1, 400),
    "standard_hx176rs": AzureSize(0, "", 1408, 1, 400),
}
"""The sizes by their names in lower case."""


def azure_size(name: object) -> AzureSize | None:
    """Return the hardware (AzureSize) of Azure's virtual machine size `name`, in upper or lower case; None if it is not
    in the table. Sizes of the HB, HC and HX series with fewer cores (`Standard_HB120-64rs_v3`) have the hardware of the
    size with all cores."""
    if not isinstance(name, str) or len(name) > 80:
        return None
    word = name.strip().lower()
    if word not in SIZES and word.startswith("standard_h") and "-" in word:
        whole, _, rest = word.partition("-")
        word = whole + rest.lstrip("0123456789")
    return SIZES.get(word)
