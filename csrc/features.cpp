// CPU features by cpuid and xgetbv, never by names in /proc, which say nothing about what the
// operating system saves. Bits: Intel SDM vol. 2A CPUID; AMD APM vol. 3 appendix E.
#include <array>
#include <cstring>
#include <thread>

#include "native.hpp"

#if defined(__x86_64__) || defined(_M_X64)
#define PYMICRO_X86 1
#if defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#endif

namespace pymicro {
namespace {

#if defined(PYMICRO_X86)

struct Leaf {
    std::uint32_t eax, ebx, ecx, edx;
};

Leaf cpuid(std::uint32_t leaf, std::uint32_t subleaf = 0) {
    Leaf r{};
#if defined(_MSC_VER)
    int out[4];
    __cpuidex(out, static_cast<int>(leaf), static_cast<int>(subleaf));
    std::memcpy(&r, out, sizeof r);
#else
    __cpuid_count(leaf, subleaf, r.eax, r.ebx, r.ecx, r.edx);
#endif
    return r;
}

std::uint64_t saved_state_mask() {
#if defined(_MSC_VER)
    return _xgetbv(0);
#else
    std::uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (static_cast<std::uint64_t>(high) << 32) | low;
#endif
}

bool bit(std::uint32_t word, int index) { return (word >> index) & 1u; }

// Tile registers are off until a process asks for them; the grant covers its later threads.
bool request_tile_registers() {
#if defined(__linux__)
    constexpr int kArchReqXcompPerm = 0x1023, kXfeatureTileData = 18;
    return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureTileData) == 0;
#else
    return false;
#endif
}

std::string vendor_name() {
    const Leaf r = cpuid(0);
    char text[13] = {};
    std::memcpy(text, &r.ebx, 4);
    std::memcpy(text + 4, &r.edx, 4);
    std::memcpy(text + 8, &r.ecx, 4);
    return text;
}

std::string brand_name() {
    if (cpuid(0x80000000u).eax < 0x80000004u) return {};
    char text[49] = {};
    for (std::uint32_t i = 0; i < 3; ++i) {
        const Leaf r = cpuid(0x80000002u + i);
        std::memcpy(text + 16 * i, &r, 16);
    }
    std::string brand = text;
    const auto first = brand.find_first_not_of(' ');
    const auto last = brand.find_last_not_of(' ');
    return first == std::string::npos ? std::string{} : brand.substr(first, last - first + 1);
}

// Leaf 4 (Intel) and 0x8000001D (AMD) share one format.
void read_caches(CpuFeatures& f) {
    const bool amd = f.vendor == "AuthenticAMD" || f.vendor == "HygonGenuine";
    const std::uint32_t leaf = amd ? 0x8000001Du : 4u;
    if (amd ? cpuid(0x80000000u).eax < leaf : cpuid(0).eax < leaf) return;
    for (std::uint32_t i = 0; i < 16; ++i) {
        const Leaf r = cpuid(leaf, i);
        const std::uint32_t type = r.eax & 31u, level = (r.eax >> 5) & 7u;
        if (type == 0) break;
        if (type == 2) continue;  // instructions
        const std::int64_t ways = (r.ebx >> 22) + 1, partitions = ((r.ebx >> 12) & 1023u) + 1;
        const std::int64_t size_bytes = ways * partitions * ((r.ebx & 4095u) + 1) *
                                        (static_cast<std::int64_t>(r.ecx) + 1);
        if (level == 1) f.l1d_bytes = size_bytes;
        if (level == 2) f.l2_bytes = size_bytes;
        if (level == 3) f.l3_bytes = size_bytes;
    }
}

void read_vector_features(CpuFeatures& f) {
    const Leaf basic = cpuid(1);
    if (!bit(basic.ecx, 27)) return;  // OSXSAVE: xgetbv itself would fault
    const std::uint64_t saved = saved_state_mask();
    const bool ymm = (saved & 0x6u) == 0x6u, zmm = (saved & 0xE6u) == 0xE6u;
    const bool tiles = (saved & 0x60000u) == 0x60000u;
    const bool has_leaf7 = cpuid(0).eax >= 7;
    const Leaf s0 = has_leaf7 ? cpuid(7, 0) : Leaf{};
    const Leaf s1 = has_leaf7 && s0.eax >= 1 ? cpuid(7, 1) : Leaf{};

    f.fma = ymm && bit(basic.ecx, 12);
    f.f16c = ymm && bit(basic.ecx, 29);
    f.avx2 = ymm && bit(s0.ebx, 5);
    f.avx_vnni = ymm && bit(s1.eax, 4);
    f.avx512f = zmm && bit(s0.ebx, 16);
    f.avx512bw = f.avx512f && bit(s0.ebx, 30);
    f.avx512vl = f.avx512f && bit(s0.ebx, 31);
    f.avx512_vnni = f.avx512f && bit(s0.ecx, 11);
    f.avx512_bf16 = f.avx512f && bit(s1.eax, 5);
    f.avx512_fp16 = f.avx512f && bit(s0.edx, 23);
    f.amx_tile = tiles && bit(s0.edx, 24) && request_tile_registers();
    f.amx_bf16 = f.amx_tile && bit(s0.edx, 22);
    f.amx_int8 = f.amx_tile && bit(s0.edx, 25);
}

#endif

CpuFeatures detect() {
    CpuFeatures f;
    f.logical_cpus = static_cast<int>(std::thread::hardware_concurrency());
#if defined(PYMICRO_X86)
    f.vendor = vendor_name();
    f.brand = brand_name();
    read_vector_features(f);
    read_caches(f);
    if (cpuid(0).eax >= 0xB) f.threads_per_core = static_cast<int>(cpuid(0xB, 0).ebx & 0xFFFFu);
#endif
    return f;
}

}  // namespace

const CpuFeatures& cpu_features() {
    static const CpuFeatures features = detect();
    return features;
}

}  // namespace pymicro
