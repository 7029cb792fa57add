// Which instruction sets this compiler can emit per function. Nothing is ever compiled with
// -march: a function marked so may run only after cpu_features() said yes.
#pragma once

// Not on Windows: its 16-byte stack is too little for what gcc keeps there.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
#define PYMICRO_X86_KERNELS 1
#define TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define TARGET_AVX_VNNI __attribute__((target("avx2,fma,f16c,avxvnni")))
#define TARGET_AVX512 __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl")))
#define TARGET_AVX512_VNNI \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512vnni")))
#define TARGET_AVX512_BF16 \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512vl,avx512bf16")))
#define TARGET_AMX __attribute__((target("amx-tile,amx-bf16,amx-int8")))
#define INLINE inline __attribute__((always_inline))
// Before a loop whose every turn must have its own registers.
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#else
#define PYMICRO_X86_KERNELS 0
#endif

#if defined(_MSC_VER)
#define RESTRICT __restrict
#else
#define RESTRICT __restrict__
#endif
