"""The metrics of published.csv as rows: unit, what the figure counts, and what bounds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        group: what `compare` files it under.
        unit: as the file writes it. `si_unit` and `scale` turn a value into SI.
        counts: what is counted, in words; metrics with different words are not comparable.
        roof: `ops`, `memory` or `pcie`, the figure of the data sheet that bounds it, or None.
        better: whether more or less is better.
    """

    name: str
    group: str
    unit: str
    si_unit: str
    scale: float
    counts: str
    roof: str | None = None
    better: Literal["more", "less"] = "more"


_TERA = ("TFLOP/s", "FLOP/s", 1e12)
_GIGA = ("GB/s", "B/s", 1e9)
_CYCLES = ("cycles", "cycles", 1.0)
_NANO, _MICRO, _MILLI = ("ns", "s", 1e-9), ("us", "s", 1e-6), ("ms", "s", 1e-3)


def _row(
    group: str,
    unit: tuple[str, str, float],
    roof: str | None,
    better: Literal["more", "less"],
    **names: str,
) -> list[Metric]:
    return [Metric(name, group, *unit, counts, roof, better) for name, counts in names.items()]


_ROWS = [
    *_row("gemm", _TERA, "ops", "more",
          gemm_tflops="2MNK over the time of a whole product, dense"),
    *_row("tensor loop", _TERA, "ops", "more",
          mma_tflops="instruction loop, operands in registers or shared memory, dense"),
    *_row("tensor loop", _TERA, None, "more",
          mma_sparse_tflops="instruction loop, 2:4 sparse, the zeros counted"),
    *_row("tensor loop", ("FLOP/clk/SM", "FLOP/clk/SM", 1.0), None, "more",
          mma_flop_per_clk_per_sm="instruction loop, per clock and SM"),
    *_row("tensor loop", _CYCLES, None, "less", mma_latency_cycles="one dependent instruction"),
    *_row("attention", _TERA, "ops", "more",
          attn_fwd_tflops="attention forward, a causal mask halves the count",
          attn_fwdbwd_tflops="attention forward and backward, a causal mask halves the count"),
    *_row("bandwidth", _GIGA, None, "more",
          gemm_stream_gbps="skinny product: A, B and D once each over the time"),
    *_row("vector", _TERA, "ops", "more",
          fp32_tflops="FMA loop off the tensor cores", fp64_tflops="FMA loop off the tensor cores",
          fp16_vec_tflops="FMA loop off the tensor cores"),
    *_row("bandwidth", _GIGA, "memory", "more",
          dram_read_gbps="reads only", dram_write_gbps="writes only",
          dram_dot_gbps="two reads", dram_copy_gbps="one read and one write",
          dram_scale_gbps="one read and one write",
          dram_memcpy_gbps="driver copy on one device: one read and one write",
          dram_add_gbps="two reads and one write", dram_triad_gbps="two reads and one write"),
    *_row("cache bandwidth", _GIGA, None, "more",
          l2_read_gbps="L2 reads", l2_read_replicated_gbps="L2 reads, all SMs the same block",
          l2_write_gbps="L2 writes", l2_copy_gbps="L2 reads and writes", l1_read_gbps="L1 reads",
          smem_read_gbps="shared memory reads", dsm_gbps="another SM's shared memory",
          tma_read_gbps="bulk tensor reads"),
    *_row("cache bandwidth", ("B/clk", "B/clk", 1.0), None, "more",
          l2_read_bytes_per_clk="L2 reads per clock"),
    *_row("cache bandwidth", ("B/clk/SM", "B/clk/SM", 1.0), None, "more",
          l1_read_bytes_per_clk_per_sm="L1 reads per clock and SM",
          smem_read_bytes_per_clk_per_sm="shared memory reads per clock and SM"),
    *_row("latency", _CYCLES, None, "less",
          l1_latency_cycles="dependent loads", l2_latency_cycles="dependent loads",
          l2_far_latency_cycles="dependent loads, the other half of L2",
          smem_latency_cycles="dependent loads", dram_latency_cycles="dependent loads",
          dsm_latency_cycles="dependent loads from another SM",
          tma_latency_cycles="bulk tensor loads"),
    *_row("latency", _NANO, None, "less",
          l1_latency_ns="dependent loads", l2_latency_ns="dependent loads",
          l2_far_latency_ns="dependent loads, the other half of L2",
          smem_latency_ns="dependent loads", dram_latency_ns="dependent loads",
          atomic_handoff_ns="one way between two SMs"),
    *_row("latency", _MICRO, None, "less", grid_sync_us="one barrier over the grid"),
    *_row("transfer", _GIGA, "pcie", "more",
          h2d_gbps="payload, pinned, copy engine", d2h_gbps="payload, pinned, copy engine",
          h2d_pageable_gbps="payload, pageable", d2h_pageable_gbps="payload, pageable",
          h2d_sm_gbps="payload, pinned, copied by SMs",
          d2h_sm_gbps="payload, pinned, copied by SMs",
          h2d_bidir_gbps="payload of one direction while both run"),
    *_row("peer", _GIGA, None, "more",
          p2p_gbps="payload one way", p2p_bidir_gbps="sum of both ways"),
    *_row("peer", _MICRO, None, "less", p2p_latency_us="one small copy"),
    *_row("collective", _GIGA, None, "more",
          allreduce_busbw_gbps="NCCL bus bandwidth", allgather_busbw_gbps="NCCL bus bandwidth",
          reducescatter_busbw_gbps="NCCL bus bandwidth"),
    *_row("collective", _MICRO, None, "less", allreduce_us="whole collective"),
    *_row("launch", _MICRO, None, "less",
          launch_us="as the method says", launch_sync_us="launch and synchronise",
          graph_node_us="one more node of a graph", null_kernel_us="an empty kernel",
          launch_chain_us="a chain of launches", graph_chain_us="a chain in a graph"),
    *_row("workload", _MILLI, None, "less", op_ms="one operator", e2e_ms="a whole model"),
    *_row("workload", ("tok/s", "1/s", 1.0), None, "more", decode_tok_s="tokens in decoding"),
    *_row("workload", _GIGA, "memory", "more", decode_gbps="model bytes x tokens per second"),
]  # fmt: skip
METRICS: dict[str, Metric] = {m.name: m for m in _ROWS}
