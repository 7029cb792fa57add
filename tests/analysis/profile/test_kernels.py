"""Names of kernels as they stand in traces, and what they tell."""

import pytest

from pymicro.analysis.profile.kernels import CLASSES, Kind, kind, short

ELEMENTWISE = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, "
    "std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)"
)
COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda(float)#1}>(int)"
)
LSTM = "void RNN_blockPersist_fp_LSTM_HMMA<__half, __half, float, 1>(int)"
NAMES = {
    "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize128x128x8_stage3_warpsize2x2x1_ffma_aligna4"
    "_alignc4_execute_kernel__5x_cublas": Kind("gemm", False, "sm_80", True),
    "sm80_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize64x64x32_stage3_warpsize2x2x1_tensor16x8x16"
    "_kernel": Kind("gemm", True, "sm_80"),
    "ampere_sgemm_128x64_tn": Kind("gemm", False, "sm_80", True),
    "volta_sgemm_128x64_tn": Kind("gemm", False, "sm_70", True),
    "ampere_bf16_s16816gemm_bf16_128x64_sliced1x2_ldg8_f2f_stages_64x5_tn": Kind(
        "gemm", True, "sm_80"
    ),
    "volta_fp16_s884gemm_fp16_128x128_ldg8_f2f_nn": Kind("gemm", True, "sm_70"),
    "nvjet_sm100_tst_64x32_64x16_2x1_2cta_h_bz_TNN": Kind("gemm", True, "sm_100"),
    "nvjet_tst_256x256_64x4_1x2_h_bz_coopA_NNT": Kind("gemm", True, ""),
    "void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_256x128_16x3_tn_align4>(cutlass_80_"
    "tensorop_s1688gemm_256x128_16x3_tn_align4::Params)": Kind("gemm", True, "sm_80"),
    "void cutlass::Kernel2<cutlass_80_simt_sgemm_128x64_8x5_nn_align1>(Params)": Kind(
        "gemm", False, "sm_80", True
    ),
    "void gemv2T_kernel_val<int, int, float, float, float, float, 128>(Params)": Kind(
        "gemm", False, ""
    ),
    "void cublasLt::splitKreduce_kernel<32, 16, int, float, float>(Params)": Kind("gemm"),
    "sm86_xmma_fprop_implicit_gemm_indexed_tf32f32_tf32f32_f32_nhwckrsc_nhwc_tilesize128x128x16"
    "_stage4_warpsize2x2x1_g1_tensor16x8x8_execute_kernel_cudnn": Kind(
        "convolution", True, "sm_86"
    ),
    "sm80_xmma_wgrad_implicit_gemm_indexed_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize": Kind(
        "convolution", True, "sm_80"
    ),
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false>(int)": Kind(
        "convolution", False, "", True
    ),
    "fmha_cutlassF_bf16_aligned_64x128_rf_sm80(PyTorchMemEffAttention::AttentionKernel)": Kind(
        "attention", None, "sm_80"
    ),
    "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x256": Kind(
        "attention", True, "sm_90"
    ),
    LSTM: Kind("recurrent"),
    "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>(int)": Kind("recurrent"),
    "void GENERIC_elementWise_bp2<float, float, float, 4, (cudnnRNNBiasMode_t)2>(int)": Kind(
        "recurrent"
    ),
    "void at::native::(anonymous namespace)::ComputeFusedParamsCUDAKernel<float>(long)": Kind(
        "reduction"
    ),
    "void at::native::elementwise_kernel<128, 4, at::native::sum_functor_like>(int)": Kind(
        "elementwise"
    ),
    ELEMENTWISE: Kind("elementwise"),
    COPY: Kind("copy"),
    "void fbgemm_gpu::split_embedding_codegen_forward_unweighted_kernel<float>(int)": Kind(
        "elementwise"
    ),
    "triton_poi_fused_relu_5": Kind("elementwise"),
    "triton_red_fused_native_layer_norm_2": Kind("reduction"),
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 9>(float*)": Kind(
        "reduction"
    ),
    "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>(int)": Kind(
        "reduction"
    ),
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::TensorList>(T)":
    Kind("optimiser"),
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)": Kind("collective"),
    "Memcpy HtoD (Pageable -> Device)": Kind("copy"),
    "Memset (Device)": Kind("copy"),
    "my_very_own_thing": Kind("other"),
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES, ids=lambda n: n[:40])
def test_what_a_name_tells(name):
    assert kind(name) == NAMES[name]
    assert kind(name).group in CLASSES


def test_short_names_keep_what_tells_kernels_apart():
    assert short(ELEMENTWISE) == "vectorized_elementwise_kernel<CUDAFunctor_add>"
    assert short(COPY) == "unrolled_elementwise_kernel<direct_copy_kernel_cuda>"
    assert short("Memcpy HtoD (Pageable -> Device)") == "Memcpy HtoD (Pageable -> Device)"
    simt = "cutlass_80_simt_sgemm_128x64_8x5_nn_align1"
    assert short(f"void cutlass::Kernel2<{simt}>({simt}::Params)") == f"cutlass::Kernel2<{simt}>"
    assert short("plain(int)") == "plain"
    assert len(short("x" * 500)) == 72
