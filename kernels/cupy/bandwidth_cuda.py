"""CUDA C++ of CuPy's `raw` streams, header-free. Text only: whoever compiles it sets the macros.

FORMAT is 64, 32, 16 or 1016 for fp64, fp32, fp16, bf16; OPERATION the place in
write, copy, scale, add, triad, read, dot; UNROLL how many 16-byte loads of each array a thread
has in flight. `target` is the array written, or `out` of the two sums.
"""

SOURCE = r"""
typedef unsigned long long Count;
#if FORMAT == 64
typedef double Item; typedef double Wide;
__device__ __forceinline__ Wide widen(Item x) { return x; }
__device__ __forceinline__ Item narrow(Wide x) { return x; }
#elif FORMAT == 32
typedef float Item; typedef float Wide;
__device__ __forceinline__ Wide widen(Item x) { return x; }
__device__ __forceinline__ Item narrow(Wide x) { return x; }
#else
typedef unsigned short Item; typedef float Wide;  // Raw bits.
__device__ __forceinline__ Wide widen(Item x) {
#if FORMAT == 16
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
#else
    return __uint_as_float((unsigned)x << 16);
#endif
}
__device__ __forceinline__ Item narrow(Wide x) {
#if FORMAT == 16
    Item y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    const unsigned bits = __float_as_uint(x);  // To nearest even; no NaN occurs here.
    return (Item)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}
#endif

enum { WRITE, COPY, SCALE, ADD, TRIAD, READ, DOT };
constexpr bool READS_X = OPERATION != WRITE;
constexpr bool READS_Y = OPERATION == ADD || OPERATION == TRIAD || OPERATION == DOT;
constexpr int VEC = 16 / sizeof(Item), THREADS = 256;

struct alignas(16) Vector { Item lane[VEC]; };
union Bits { uint4 raw; Vector items; __device__ Bits() {} };

// No hints: on an H200 marks like .nc, L1::no_allocate or L2::256B cost up to a tenth.
__device__ __forceinline__ Vector load(const Vector* from) {
    Bits got;
    asm volatile("ld.global.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(got.raw.x), "=r"(got.raw.y), "=r"(got.raw.z), "=r"(got.raw.w) : "l"(from));
    return got.items;
}

__device__ __forceinline__ void store(Vector* to, const Vector& v) {
    Bits put;
    put.items = v;
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};"
        :: "l"(to), "r"(put.raw.x), "r"(put.raw.y), "r"(put.raw.z), "r"(put.raw.w) : "memory");
}

__device__ __forceinline__ Wide combine(Item x, Item y) {
    const Wide s = (Wide)SCALAR;
    switch (OPERATION) {
        case WRITE: return s;
        case SCALE: return s * widen(x);
        case ADD: return widen(x) + widen(y);
        case TRIAD: return widen(x) + s * widen(y);
        case DOT: return widen(x) * widen(y);
        default: return widen(x);
    }
}

// A copy moves bits; going through fp32 would cost instructions.
__device__ __forceinline__ Item apply(Item x, Item y) {
    return OPERATION == COPY ? x : narrow(combine(x, y));
}

// Calls use(index, x, y) for the vectors of one tile; whole tiles without a test for each load.
template <bool WHOLE, class Use>
__device__ __forceinline__ void tile(const Vector* x, const Vector* y, Count first, Count vectors,
                                     Use use) {
    Vector vx[UNROLL], vy[UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const Count i = first + u * THREADS;
        if (READS_X && (WHOLE || i < vectors)) vx[u] = load(x + i);
        if (READS_Y && (WHOLE || i < vectors)) vy[u] = load(y + i);
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
        const Count i = first + u * THREADS;
        if (WHOLE || i < vectors) use(i, vx[u], vy[u]);
    }
}

template <class Use>
__device__ __forceinline__ void walk(const Item* x, const Item* y, Count n, Use use) {
    const Count vectors = n / VEC, step = (Count)gridDim.x * THREADS * UNROLL;
#pragma unroll 1
    for (Count at = (Count)blockIdx.x * THREADS * UNROLL; at < vectors; at += step) {
        const Vector *vx = (const Vector*)x, *vy = (const Vector*)y;
        if (at + THREADS * UNROLL <= vectors) tile<true>(vx, vy, at + threadIdx.x, vectors, use);
        else tile<false>(vx, vy, at + threadIdx.x, vectors, use);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
map_stream(const Item* x, const Item* y, Item* target, Count n) {
    walk(x, y, n, [&](Count i, const Vector& vx, const Vector& vy) {
        Vector result;
#pragma unroll
        for (int l = 0; l < VEC; ++l)
            result.lane[l] = apply(vx.lane[l], vy.lane[l]);
        store((Vector*)target + i, result);
    });
    const Count rest = n / VEC * VEC + threadIdx.x;  // Fewer than VEC items, for the first block.
    if (blockIdx.x == 0 && rest < n)
        target[rest] = apply(x[rest], y[rest]);
}

extern "C" __global__ void __launch_bounds__(THREADS)
sum_stream(const Item* x, const Item* y, SUM* out, Count n, unsigned slots) {
    Wide total[UNROLL] = {};  // One chain for each load in flight, or additions would wait.
    walk(x, y, n, [&](Count i, const Vector& vx, const Vector& vy) {
#pragma unroll
        for (int l = 0; l < VEC; ++l)
            total[l % UNROLL] += combine(vx.lane[l], vy.lane[l]);
    });
    const Count rest = n / VEC * VEC + threadIdx.x;
    if (blockIdx.x == 0 && rest < n) total[0] += combine(x[rest], y[rest]);
#pragma unroll
    for (int u = 1; u < UNROLL; ++u) total[0] += total[u];

    __shared__ Wide of_warp[THREADS / 32];
    for (int offset = 16; offset; offset /= 2)
        total[0] += __shfl_down_sync(0xffffffff, total[0], offset);
    if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = total[0];
    __syncthreads();
    if (threadIdx.x) return;
    for (int w = 1; w < THREADS / 32; ++w) total[0] += of_warp[w];
    out[blockIdx.x] = (SUM)total[0];
    for (unsigned slot = blockIdx.x + gridDim.x; slot < slots; slot += gridDim.x) out[slot] = 0;
}
"""
