// 16-bit floating-point formats by integer arithmetic: the meaning the vector versions must match.
#pragma once

#include <bit>
#include <cstdint>

namespace pymicro {

inline float bf16_to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// To nearest, ties to even; a NaN stays a (quiet) NaN.
inline std::uint16_t float_to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

inline float fp16_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
    const std::uint32_t magnitude = half & 0x7FFFu;
    if (magnitude >= 0x7C00u)  // infinity and NaN; a signalling NaN becomes quiet, as in F16C
        return std::bit_cast<float>(sign | 0x7F800000u | ((magnitude & 0x3FFu) << 13) |
                                    (magnitude > 0x7C00u ? 0x400000u : 0u));
    // Re-biasing by a multiplication is exact and also normalises subnormal numbers.
    const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112f;
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | sign);
}

// To nearest, ties to even; overflow gives infinity, a NaN stays a (quiet) NaN.
inline std::uint16_t float_to_fp16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
    if (magnitude > 0x7F800000u)
        return static_cast<std::uint16_t>(sign | 0x7E00u | ((magnitude >> 13) & 0x3FFu));
    if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // 65520 and above round to infinity
    if (magnitude < 0x38800000u) {  // below 2^-14: adding 1/2 leaves the result in the low bits
        const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
        return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) & 0x7FFu));
    }
    const std::uint32_t rounded = magnitude + 0xFFFu + ((magnitude >> 13) & 1u);
    return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

}  // namespace pymicro
