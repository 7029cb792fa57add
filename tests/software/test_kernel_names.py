"""Names as profilers show them, and the generation that each was written for."""

import pytest

from pymicro.software.kernel_names import generation, short, steps_behind, written_for

FLASH = (
    "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4,"
    " false, false, cutlass::half_t>, false, false>(pytorch_flash::Flash_fwd_params)"
)
NAMES = {
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_ffma_kernel__5x_cublas": (8, 0),
    "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x256x64_warpgroupsize2x1x1_kernel": (9, 0),
    "sm86_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize32x32x8_kernel": (8, 6),
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn": (8, 0),
    "ampere_sgemm_128x64_tn": (8, 0),
    "volta_sgemm_32x128_nn": (7, 0),
    "void volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": (7, 0),
    "turing_fp16_s1688gemm_fp16_256x128_ldg8_f2f_tn": (7, 5),
    "maxwell_sgemm_128x64_tn": (5, 0),
    "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_256x64_nn_align8>(Params)": (8, 0),
    "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn>": (8, 0),
    "cutlass_75_tensorop_bf16_s1688gemm_bf16_256x128_nn_align1": (7, 5),
    "cutlass3x_sm90_tensorop_s64x256x16gemm_f16_f16_f32_void_f16_128x256x64_2x1x1": (9, 0),
    "cutlass3x_sm100_tensorop_s128x128x16gemm_bf16": (10, 0),
    "cutlass3x_sm120_bstensorop_s16x8x64gemm": (12, 0),
    "nvjet_sm90_hss_320x128_64x3_1x2_coopB": (9, 0),
    "nvjet_sm100_tst_128x256_64x4": (10, 0),
    "nvjet_hsh_128x256_64x4_1x2_h_bz_coopA_NNT": (9, 0),
    FLASH: (8, 0),
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256>>": (8, 0),
    "fmha_cutlassF_f16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)": (8, 0),
    "fmha_cutlassF_f32_aligned_64x64_rf_sm75(PyTorchMemEffAttention)": (7, 5),
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128": (9, 0),
    "cudnn_generated_fort_native_sdpa_sm100_flash_fprop_f16": (10, 0),
    "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<X>>>": (9, 0),
}
UNTOLD = (
    "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 6, 9, false>(cublasGemmSmallNParams)",
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, __half, float>(Params)",
    "std::enable_if<true, void>::type internal::gemvx::kernel<int, int, __half, float>",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>",
    "void dot_kernel<float, 128, 0>",
    "triton_poi_fused_gelu_0",
    "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
    "canada_gemm_kernel",
    "sm_16x8_tile",
    "",
)


@pytest.mark.parametrize(("name", "chip"), NAMES.items(), ids=[n[:30] for n in NAMES])
def test_generation_by_name(name, chip):
    written = written_for(name)
    assert written is not None
    assert written.chip == chip
    assert written.by


@pytest.mark.parametrize("name", UNTOLD, ids=lambda n: n[:20] or "empty")
def test_a_name_that_says_nothing_gives_nothing(name):
    assert written_for(name) is None


def test_a_family_may_leave_open_which_chip():
    assert written_for("nvjet_hsh_128x256_64x4").or_newer
    assert not written_for("nvjet_sm90_hss_320x128").or_newer


@pytest.mark.parametrize(
    ("written", "chip", "steps"),
    [
        ((8, 0), (9, 0), 1),
        ((7, 5), (9, 0), 2),
        ((7, 0), (9, 0), 2),
        ((6, 1), (9, 0), 3),
        ((8, 9), (9, 0), 0),
        ((8, 0), (8, 9), 1),
        ((8, 0), (8, 6), 0),
        ((7, 5), (8, 0), 1),
        ((9, 0), (9, 0), 0),
        ((9, 0), (12, 0), 1),
        ((8, 9), (12, 0), 1),
        ((8, 0), (12, 0), 2),
        ((10, 0), (12, 0), 0),
        ((9, 0), (8, 0), 0),
        ((7, 0), (7, 5), 0),
    ],
)
def test_steps_between_generations(written, chip, steps):
    assert steps_behind(written, chip) == steps


@pytest.mark.parametrize(
    ("chip", "name"),
    [((9, 0), "hopper"), ((8, 6), "ampere"), ((8, 9), "ada"), ((12, 0), "blackwell"),
     ((7, 5), "turing"), ((6, 1), "pascal"), ((7, 2), "volta")],
)  # fmt: skip
def test_names_of_generations(chip, name):
    assert generation(chip) == name


def test_short_names_drop_what_templates_add():
    long = "void cutlass::Kernel2<cutlass_80_tensorop_s16816gemm_f16_256x64_32x4_nn_align8>(Params)"
    assert short(long) == "cutlass_80_tensorop_s16816gemm_f16_256x64_32x4_nn_align8"
    gemv = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float>(Params)"
    assert short(gemv) == "internal::gemvx::kernel"
    assert short(FLASH) == "pytorch_flash::flash_fwd_kernel"
    assert len(short("x" * 200)) == 60
