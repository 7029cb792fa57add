// Packing pieces of the AVX2 file that wider instruction sets use too: they are not what limits.
#pragma once

#include <cstdint>

namespace pymicro {

// As Kernel::transpose, for words of 4 and of 8 bytes and nr a multiple of 8.
void transpose4_avx2(const void* rows, std::int64_t row_bytes, std::int64_t words, int nr,
                     void* panel);
void transpose8_avx2(const void* rows, std::int64_t row_bytes, std::int64_t words, int nr,
                     void* panel);

// As Kernel::convert_a, and inside a Kernel::store.
void fp16_to_float_avx2(const void* from, void* to, std::int64_t count);
void float_to_fp16_avx2(const void* from, void* to, std::int64_t count);
void bf16_to_float_avx2(const void* from, void* to, std::int64_t count);
void float_to_bf16_avx2(const void* from, void* to, std::int64_t count);
void int8_to_int16_avx2(const void* from, void* to, std::int64_t count);

}  // namespace pymicro
