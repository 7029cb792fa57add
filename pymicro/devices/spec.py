"""What a GPU can do on paper: one row of the catalogue, in SI units, and the peaks that follow.

A row says nothing of what was measured, and knows no other row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pymicro.errors import unknown

# The arithmetic paths of `ops_per_clk_per_sm`. A path names operand format, unit and accumulator.
PATHS = (
    "fp64", "fp32", "fp16", "bf16", "int32",
    "fp64_tensor", "tf32_tensor",
    "fp16_tensor_fp32_acc", "fp16_tensor_fp16_acc", "bf16_tensor_fp32_acc",
    "fp8_tensor_fp32_acc", "fp8_tensor_fp16_acc", "fp6_tensor_fp32_acc", "fp4_tensor_fp32_acc",
    "int8_tensor", "int4_tensor", "int8_dp4a",
)  # fmt: skip

# GT/s per lane and the share of it that is not line code (PCI Express base specification:
# 8b/10b up to generation 2, 128b/130b up to 5, 236 of 256 bytes of a flit from 6).
_PCIE = {
    1: (2.5, 8 / 10),
    2: (5.0, 8 / 10),
    3: (8.0, 128 / 130),
    4: (16.0, 128 / 130),
    5: (32.0, 128 / 130),
    6: (64.0, 236 / 256),
}


def uses_tensor_clock(path: str) -> bool:
    """Whether vendors quote this path at the tensor boost clock (all tensor paths but FP64)."""
    return "_tensor" in path and path != "fp64_tensor"


@dataclass(frozen=True)
class DeviceSpec:
    """One GPU. `None` means not known; 0 operations mean that the hardware has no such path.

    Attributes:
        key: the name of the row, `h100_sxm5_80gb`; empty for a computed spec.
        ops_per_clk_per_sm: dense operations per SM clock and SM by path, an FMA counted as two.
        published_ops_per_s: the vendor's dense figures by path, where it prints one.
        explained_mismatch: why a published figure does not follow from SMs, rate and clock.
        boost_clock_hz: the clock of the data sheet; `max_clock_hz` is what NVML allows.
        memory_bytes: nominal size (80 GB of HBM are 80 GiB); a driver shows a little less.
        memory_bytes_per_s: DRAM bandwidth, vendor's figure.
        nvlink_bytes_per_s: sum of both directions over all links; 0 without NVLink.
        inferred: keys whose value no opened source states.
        computed: not from the catalogue but from what the driver says; peaks are at the maximum
            clock.
    """

    key: str
    name: str
    capability: tuple[int, int]
    sm_count: int | None = None
    boost_clock_hz: float | None = None
    memory_bytes: int | None = None
    memory_bytes_per_s: float | None = None
    ops_per_clk_per_sm: Mapping[str, int] = field(default_factory=dict)
    nvml_names: tuple[str, ...] = ()
    pci_device_ids: tuple[str, ...] = ()
    chip: str = ""
    architecture: str = ""
    launch_year: int | None = None
    base_clock_hz: float | None = None
    tensor_boost_clock_hz: float | None = None
    max_clock_hz: float | None = None
    memory_type: str = ""
    memory_bus_width_bits: int | None = None
    memory_bits_per_s_per_pin: float | None = None
    memory_clock_hz: float | None = None
    l2_bytes: int | None = None
    l1_and_shared_bytes_per_sm: int | None = None
    shared_bytes_per_sm: int | None = None
    shared_bytes_per_block: int | None = None
    registers_per_sm: int | None = None
    max_threads_per_sm: int | None = None
    structured_sparsity: bool | None = None
    pcie_generation: int | None = None
    pcie_lanes: int | None = None
    nvlink_generation: int | None = None
    nvlink_links: int | None = None
    nvlink_bytes_per_s: float | None = None
    nvlink_kind: str = ""
    nvlink_c2c_bytes_per_s: float | None = None
    p2p_over_pcie: str = ""
    p2p_over_nvlink: bool | None = None
    tdp_w: float | None = None
    ecc: str = ""
    cuda_toolkit_first: str = ""
    cuda_toolkit_last: str = ""
    cuda_toolkit_dropped: str = ""
    cublas_first_cuda_toolkit: str = ""
    pytorch_first: str = ""
    pytorch_note: str = ""
    published_ops_per_s: Mapping[str, float] = field(default_factory=dict)
    explained_mismatch: Mapping[str, str] = field(default_factory=dict, repr=False)
    published_halved_from_sparse: tuple[str, ...] = field(default=(), repr=False)
    published_not_confirmed: tuple[str, ...] = field(default=(), repr=False)
    inferred: tuple[str, ...] = field(default=(), repr=False)
    notes: tuple[str, ...] = field(default=(), repr=False)
    sources: tuple[str, ...] = field(default=(), repr=False)
    vendor_documents: tuple[str, ...] = field(default=(), repr=False)
    computed: bool = False

    kind = "cuda"

    def clock_hz(self, path: str) -> float | None:
        """The nominal clock at which the vendor quotes `path`."""
        if self.tensor_boost_clock_hz and uses_tensor_clock(path):
            return self.tensor_boost_clock_hz
        return self.boost_clock_hz

    def ops_per_clk(self, path: str) -> int | None:
        """Dense operations per clock of the whole GPU; 0 if it lacks the path, None if unknown.

        Raises:
            UsageError: `path` is not one of PATHS.
        """
        if path not in PATHS:
            raise unknown("arithmetic path", path, PATHS)
        rate = self.ops_per_clk_per_sm.get(path)
        if rate == 0:
            return 0
        return None if rate is None or self.sm_count is None else rate * self.sm_count

    def peak_ops_per_s(self, path: str, clock_hz: float | None = None) -> float | None:
        """SMs x operations per clock x clock, dense: at the nominal clock, or at one measured.

        Returns 0 if the hardware lacks the path and None where a factor is not known.
        """
        per_clk = self.ops_per_clk(path)
        clock = self.clock_hz(path) if clock_hz is None else clock_hz
        if per_clk == 0:
            return 0.0
        return None if per_clk is None or clock is None else per_clk * clock

    @property
    def last_level_cache_bytes(self) -> int | None:
        """What a cold measurement must flush."""
        return self.l2_bytes

    @property
    def pcie_bytes_per_s(self) -> float | None:
        """One direction of the link at its full generation and width, before packet headers."""
        if self.pcie_generation not in _PCIE or self.pcie_lanes is None:
            return None
        transfers, payload = _PCIE[self.pcie_generation]
        return transfers * 1e9 * payload / 8 * self.pcie_lanes
