// Streams with AVX2 and AVX-512. Functions marked so run only after cpu_features() said yes.
#include <algorithm>
#include <type_traits>

#include "memory_stream.hpp"
#include "native.hpp"
#include "target.hpp"

#if PYMICRO_X86_KERNELS
#include <immintrin.h>

namespace pymicro {
namespace {

#define NAMESPACE avx2
#define TARGET TARGET_AVX2
#define VECTOR_BYTES 32
#define STORE_PAST_CACHES(to, z) _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)(z))
#include "memory_stream.inc"

#define NAMESPACE avx512
#define TARGET TARGET_AVX512
#define VECTOR_BYTES 64
#define STORE_PAST_CACHES(to, z) _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)(z))
#include "memory_stream.inc"

}  // namespace

const StreamPath kStreamPathsX86[] = {
    {"avx512", [] { return cpu_features().avx512f && cpu_features().avx512vl; }, avx512::find},
    {"avx2", [] { return cpu_features().avx2 && cpu_features().fma; }, avx2::find},
    {nullptr, nullptr, nullptr},
};

}  // namespace pymicro
#else
namespace pymicro {
const StreamPath kStreamPathsX86[] = {{nullptr, nullptr, nullptr}};
}  // namespace pymicro
#endif
