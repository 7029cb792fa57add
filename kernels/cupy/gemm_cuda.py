"""CUDA C++ of CuPy's `raw` products, header-free. Text only: whoever compiles it sets the macros.

`SIMT_SOURCE` wants REAL (float, double) and VEC, its elements in 16 bytes; `TENSOR_SOURCE` wants
BF16 (0, 1), STAGES and compute capability 8.0. Both want B_IS_NK (0, 1) and ALIGNED: 1 promises
that rows of A and B are multiples of 16 bytes.
"""

# Blocks walk C in bands of eight tile rows, column by column, so that their panel of A stays in L2.
_PLACE = r"""
__device__ __forceinline__ int2 tile_start(int m, int n, int tile_m, int tile_n) {
    const int tiles_m = (m + tile_m - 1) / tile_m, band = 8 * ((n + tile_n - 1) / tile_n);
    const int first = blockIdx.x / band * 8, height = min(8, tiles_m - first);
    const int inside = blockIdx.x % band;
    return make_int2(tile_m * (first + inside % height), tile_n * (inside / height));
}
"""

# A block computes 128×128, each of its 16×16 threads 8×8 in square patches of VEC, so that a warp
# reads shared memory 16 bytes at a time without a conflict. Both operands lie there k-major.
SIMT_SOURCE = (
    _PLACE
    + r"""
#define BLOCK 128
#define PER 8
#define PATCHES (PER / VEC)
#define DEPTH 8
#define PITCH (BLOCK + VEC)
#define LOADS (BLOCK * DEPTH / VEC / 256)

struct alignas(16) Vector { REAL lane[VEC]; };

// The 16 bytes at (row, column) of a rows×columns matrix, zeros outside.
__device__ __forceinline__ Vector fetch(const REAL* __restrict__ from, int row, int column,
                                        int rows, int columns) {
    Vector got;
    const REAL* here = from + (long long)row * columns + column;
#pragma unroll
    for (int i = 0; i < VEC; ++i) got.lane[i] = 0;
    if (row >= rows || column >= columns) return got;
    if (ALIGNED) return *reinterpret_cast<const Vector*>(here);
#pragma unroll
    for (int i = 0; i < VEC; ++i) if (column + i < columns) got.lane[i] = here[i];
    return got;
}

// Where the i-th load of this thread goes: k-contiguous operands are turned, others copied.
template <bool TURN> struct Place {
    int outer, inner;  // Row and column in the operand as stored, in elements.
    __device__ Place(int i) {
        const int piece = threadIdx.x + 256 * i, per_row = (TURN ? DEPTH : BLOCK) / VEC;
        outer = piece / per_row;
        inner = piece % per_row * VEC;
    }
    __device__ void put(REAL (*tile)[PITCH], const Vector& v) const {
        if (!TURN) *reinterpret_cast<Vector*>(&tile[outer][inner]) = v;
#pragma unroll
        for (int i = 0; i < VEC; ++i) if (TURN) tile[inner + i][outer] = v.lane[i];
    }
};

extern "C" __global__ void __launch_bounds__(256, VEC / 2)
gemm_simt(const REAL* __restrict__ a, const REAL* __restrict__ b, REAL* __restrict__ c,
          int m, int n, int k) {
    __shared__ alignas(16) REAL as[2][DEPTH][PITCH], bs[2][DEPTH][PITCH];
    const int2 start = tile_start(m, n, BLOCK, BLOCK);
    const int first_m = start.x, first_n = start.y;
    const int tm = threadIdx.x / 16 * VEC, tn = threadIdx.x % 16 * VEC;
    Vector next_a[LOADS], next_b[LOADS];
    REAL acc[PER][PER] = {};

    auto load = [&](int at) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            const Place<true> pa(i);
            const Place<B_IS_NK> pb(i);
            next_a[i] = fetch(a, first_m + pa.outer, at + pa.inner, m, k);
            next_b[i] = B_IS_NK ? fetch(b, first_n + pb.outer, at + pb.inner, n, k)
                                : fetch(b, at + pb.outer, first_n + pb.inner, k, n);
        }
    };
    auto put = [&](int half) {
#pragma unroll
        for (int i = 0; i < LOADS; ++i) {
            Place<true>(i).put(as[half], next_a[i]);
            Place<B_IS_NK>(i).put(bs[half], next_b[i]);
        }
    };

    load(0);
    put(0);
    __syncthreads();
    for (int at = 0, half = 0; at < k; at += DEPTH, half ^= 1) {
        const bool more = at + DEPTH < k;
        if (more) load(at + DEPTH);
#pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            Vector va[PATCHES], vb[PATCHES];
#pragma unroll
            for (int p = 0; p < PATCHES; ++p) {
                va[p] = *reinterpret_cast<Vector*>(&as[half][step][p * 16 * VEC + tm]);
                vb[p] = *reinterpret_cast<Vector*>(&bs[half][step][p * 16 * VEC + tn]);
            }
#pragma unroll
            for (int i = 0; i < PER; ++i)
#pragma unroll
                for (int j = 0; j < PER; ++j)
                    acc[i][j] += va[i / VEC].lane[i % VEC] * vb[j / VEC].lane[j % VEC];
        }
        if (more) put(half ^ 1);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER; ++i)
#pragma unroll
        for (int j = 0; j < PER; ++j) {
            const int row = first_m + i / VEC * 16 * VEC + tm + i % VEC;
            const int column = first_n + j / VEC * 16 * VEC + tn + j % VEC;
            if (row < m && column < n) c[(long long)row * n + column] = acc[i][j];
        }
}
"""
)

# A block computes 128×256 in steps of 32 along k, STAGES - 1 of them in flight; each of its 8 warps
# holds 64×64, which reads shared memory least. Rows there are padded by 16 bytes, so ldmatrix
# meets no bank twice.
TENSOR_SOURCE = (
    _PLACE
    + r"""
typedef unsigned short Half;  // Raw bits of fp16 or bf16.
#define DEPTH 32
#define K_PITCH (DEPTH + 8)  // Row of a k-contiguous tile.
#define N_PITCH (256 + 8)    // Row of an n-contiguous tile.
#define A_SIZE (128 * K_PITCH)
#define B_SIZE (B_IS_NK ? 256 * K_PITCH : DEPTH * N_PITCH)
#if BF16
#define KIND "bf16"
#else
#define KIND "f16"
#endif

__device__ __forceinline__ unsigned shared_address(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// Eight elements at (row, column) of a rows×columns matrix into shared memory, zeros outside.
__device__ __forceinline__ void fetch(Half* to, const Half* __restrict__ from, int row, int column,
                                      int rows, int columns) {
    const bool inside = row < rows && column < columns;
    const Half* here = from + (inside ? (long long)row * columns + column : 0);
    if (ALIGNED) {
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(shared_address(to)), "l"(here), "r"(inside ? 16 : 0) : "memory");
    } else {
#pragma unroll
        for (int i = 0; i < 8; ++i) to[i] = inside && column + i < columns ? here[i] : 0;
    }
}

template <bool TURN>
__device__ __forceinline__ void load_matrices(unsigned (&r)[4], const Half* at) {
    if (TURN)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(at)));
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(shared_address(at)));
}

__device__ __forceinline__ void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0,
                                         unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." KIND "." KIND ".f32 "
                 "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

extern "C" __global__ void __launch_bounds__(256, 1)
gemm_tensor(const Half* __restrict__ a, const Half* __restrict__ b, Half* __restrict__ c,
            int m, int n, int k) {
    extern __shared__ __align__(16) Half tiles[];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int2 start = tile_start(m, n, 128, 256);
    const int first_m = start.x, first_n = start.y;
    const int warp_m = warp / 4 * 64, warp_n = warp % 4 * 64;
    float acc[4][8][4] = {};  // 16-row strips, 8-column strips, the four numbers of this lane.

    auto load = [&](int step) {
        Half* a_tile = tiles + step % STAGES * (A_SIZE + B_SIZE);
        Half* b_tile = a_tile + A_SIZE;
        const int at = step * DEPTH;
#pragma unroll
        for (int i = 0; i < 6; ++i) {  // 256 pieces of 8 elements each: two of A, four of B.
            const int piece = threadIdx.x + 256 * (i < 2 ? i : i - 2);
            const int row = piece / 4, in_k = piece % 4 * 8;
            if (i < 2) {
                fetch(a_tile + row * K_PITCH + in_k, a, first_m + row, at + in_k, m, k);
            } else if (B_IS_NK) {
                fetch(b_tile + row * K_PITCH + in_k, b, first_n + row, at + in_k, n, k);
            } else {
                const int k_row = piece / 32, in_n = piece % 32 * 8;
                fetch(b_tile + k_row * N_PITCH + in_n, b, at + k_row, first_n + in_n, k, n);
            }
        }
    };

    const int steps = (k + DEPTH - 1) / DEPTH;
#pragma unroll
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) load(step);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int step = 0; step < steps; ++step) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();  // The step has arrived, and the stage refilled below has been read.
        if (step + STAGES - 1 < steps) load(step + STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const Half* a_tile = tiles + step % STAGES * (A_SIZE + B_SIZE);
        const Half* b_tile = a_tile + A_SIZE;
#pragma unroll
        for (int at = 0; at < DEPTH; at += 16) {
            unsigned fa[4][4], fb[4][4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                load_matrices<false>(
                    fa[i], a_tile + (warp_m + 16 * i + lane % 16) * K_PITCH + at + lane / 16 * 8);
#pragma unroll
            for (int j = 0; j < 4; ++j) {  // Registers: n 0-7 at k 0-7, at k 8-15; n 8-15 alike.
                const int in_n = warp_n + 16 * j;
                if (B_IS_NK)
                    load_matrices<false>(fb[j], b_tile + (in_n + lane / 16 * 8 + lane % 8) * K_PITCH
                                                    + at + lane / 8 % 2 * 8);
                else
                    load_matrices<true>(fb[j], b_tile + (at + lane % 16) * N_PITCH
                                                   + in_n + lane / 16 * 8);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 8; ++j)
                    multiply(acc[i][j], fa[i], fb[j / 2][j % 2 * 2], fb[j / 2][j % 2 * 2 + 1]);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = first_m + warp_m + 16 * i + 8 * half + lane / 4;
                const int column = first_n + warp_n + 8 * j + lane % 4 * 2;
                unsigned both;
                asm("cvt.rn." KIND "x2.f32 %0, %1, %2;"
                    : "=r"(both) : "f"(acc[i][j][2 * half + 1]), "f"(acc[i][j][2 * half]));
                Half* to = c + (long long)row * n + column;
                if (row >= m || column >= n) continue;
                if (n % 2 == 0) *reinterpret_cast<unsigned*>(to) = both;
                else {
                    to[0] = (Half)both;
                    if (column + 1 < n) to[1] = (Half)(both >> 16);
                }
            }
}
"""
)
