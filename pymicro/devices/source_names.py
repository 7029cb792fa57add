"""The sources' own device names and the rows of the catalogue that they surely mean.

A name that fits several rows stays unmapped: its figure belongs to none of them.
"""

from __future__ import annotations

KEYS: dict[str, str] = {
    "A10": "a10",
    "A100 PCIe 40GB": "a100_pcie_40gb",
    "A100 40GB PCIe": "a100_pcie_40gb",
    "A100-PCIE-40GB": "a100_pcie_40gb",
    "A100 PCIe 80GB": "a100_pcie_80gb",
    "A100 80GB PCIe": "a100_pcie_80gb",
    "A100 SXM 40GB": "a100_sxm4_40gb",
    "A100 SXM 80GB": "a100_sxm4_80gb",
    "A100 SXM4 80GB": "a100_sxm4_80gb",
    "A100 80GB SXM4": "a100_sxm4_80gb",
    "A100-SXM4-80GB": "a100_sxm4_80gb",
    "B200 SXM": "b200_sxm_180gb",
    "GH200 144GB": "gh200_144gb",
    "GH200 96GB": "gh200_96gb",
    "H100 NVL 94GB": "h100_nvl_94gb",
    "H100 PCIe 80GB": "h100_pcie_80gb",
    "H100 SXM 80GB": "h100_sxm5_80gb",
    "H100 80GB SXM5": "h100_sxm5_80gb",
    "H100 80GB HBM3": "h100_sxm5_80gb",
    "H200 SXM 141GB": "h200_sxm_141gb",
    "L4": "l4",
    "L40S": "l40s",
    "RTX 3090": "rtx_3090",
    "RTX 4090": "rtx_4090",
    "RTX 4090 24GB": "rtx_4090",
    "RTX 5080": "rtx_5080",
    "RTX 5090": "rtx_5090",
    "RTX 5090 32GB": "rtx_5090",
    "RTX 6000 Ada": "rtx_6000_ada",
    "RTX A6000": "rtx_a6000",
    "RTX PRO 6000 WS": "rtx_pro_6000_blackwell_ws",
    "T4": "t4",
    "T4 (Colab)": "t4",
    "T4 (Kaggle)": "t4",
    "V100 PCIe 32GB": "v100_pcie_32gb",
    "V100 SXM2 16GB": "v100_sxm2_16gb",
    "V100-SXM2-16GB": "v100_sxm2_16gb",
}

_VARIANTS = "the form factor is not stated"
_SIZE_TOO = "neither form factor nor memory size is stated"
_INFERRED = "the card was inferred, not stated"
AMBIGUOUS: dict[str, str] = {
    "A100": _SIZE_TOO,
    "A100 40GB (form factor unstated)": _VARIANTS,
    "A100 80GB (form factor unstated)": _VARIANTS,
    "A100 80GB": _VARIANTS,
    "A100-40GB": _VARIANTS,
    "A100 PCIe (memory unstated)": "the memory size is not stated",
    "1x A100 (inferred)": _INFERRED,
    "4x A100": _SIZE_TOO,
    "GPU (A100 inferred)": _INFERRED,
    "H100": _SIZE_TOO,
    "H100 (link not Gen5)": _SIZE_TOO,
    "H100 80GB (4-way, 6 links per pair)": _VARIANTS,
    "H200": "SXM or NVL is not stated",
    "H200-labelled Hopper (likely GH200 96GB)": "the label and the figures disagree",
    "RTX 3090 (inferred from project)": _INFERRED,
    "V100": _SIZE_TOO,
    "V100 16GB": _VARIANTS,
    "V100 32GB": _VARIANTS,
}


def key_of(device: str) -> str | None:
    """The catalogue key for a source's device name; None if ambiguous or not in the catalogue."""
    return KEYS.get(device)
