// Packs of 16 (or 32) bytes, how they are loaded and stored, and the seven operations on them.
// `-DLOAD=` and `-DSTORE=` choose the cache hints, `-DOP=` the operation, `-DPACK_BYTES=32` the
// 256-bit accesses that exist from compute capability 10.0 on.

#include "bandwidth/formats.cuh"

#ifndef PACK_BYTES
#define PACK_BYTES 16
#endif
#ifndef LOAD
#define LOAD plain
#endif
#ifndef STORE
#define STORE plain
#endif

constexpr int kWords = PACK_BYTES / 4;

struct alignas(PACK_BYTES) Pack {
  u32 word[kWords];
};

// No load is marked as read-only (.nc): the assembler would then move stores ahead of it, and
// fewer loads would be in flight.
//
// plain: as the hardware likes. once: not kept in L1. first: the same, and first to leave L2.
// l2: past L1. l1: kept in L1. None asks L2 to fetch more than was missed: on an H200 that cost
// six percent of a read.
enum class Load { plain, once, first, l2, l1 };
// stream: likely to be used once (.cs). through: written through L2 (.wt). first: first to leave.
enum class Store { plain, stream, through, first };
constexpr Load kLoad = Load::LOAD;
constexpr Store kStore = Store::STORE;

DEVICE u64 evict_first() {
  u64 policy = 0;
#if __CUDA_ARCH__ >= 800
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
  return policy;
}

#if __CUDA_ARCH__ >= 700
#define LOAD_ONCE ".L1::no_allocate"
#else
#define LOAD_ONCE ""
#endif

#define PACK_OUT(v) "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
#define PACK_IN(v) "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
#define LOAD_AS(how) \
  asm volatile("ld.global" how ".v4.u32 {%0, %1, %2, %3}, [%4];" : PACK_OUT(v) : "l"(from))
#define STORE_AS(how) \
  asm volatile("st.global" how ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), PACK_IN(v))

#if PACK_BYTES == 16
DEVICE Pack load(const Pack* from, u64 policy) {
  Pack v;
  if constexpr (kLoad == Load::once) LOAD_AS(LOAD_ONCE);
  else if constexpr (kLoad == Load::l2) LOAD_AS(".cg");
  else if constexpr (kLoad == Load::l1) LOAD_AS(".ca");
#if __CUDA_ARCH__ >= 800
  else if constexpr (kLoad == Load::first)
    asm volatile(
        "ld.global.L1::no_allocate.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
        : PACK_OUT(v)
        : "l"(from), "l"(policy));
#endif
  else LOAD_AS("");
  return v;
}

DEVICE void store(Pack* to, const Pack& v, u64 policy) {
  if constexpr (kStore == Store::stream) STORE_AS(".cs");
  else if constexpr (kStore == Store::through) STORE_AS(".wt");
#if __CUDA_ARCH__ >= 800
  else if constexpr (kStore == Store::first)
    asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %2, %3, %4}, %5;" ::"l"(to),
                 PACK_IN(v), "l"(policy));
#endif
  else STORE_AS("");
}
#else
#define WIDE_OUT(v) \
  PACK_OUT(v), "=r"(v.word[4]), "=r"(v.word[5]), "=r"(v.word[6]), "=r"(v.word[7])
#define WIDE_IN(v) PACK_IN(v), "r"(v.word[4]), "r"(v.word[5]), "r"(v.word[6]), "r"(v.word[7])

DEVICE Pack load(const Pack* from, u64) {
  Pack v;
  if constexpr (kLoad == Load::first)
    asm volatile(
        "ld.global.L1::no_allocate.L2::evict_first.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "[%8];"
        : WIDE_OUT(v)
        : "l"(from));
  else
    asm volatile("ld.global.v8.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
                 : WIDE_OUT(v)
                 : "l"(from));
  return v;
}

DEVICE void store(Pack* to, const Pack& v, u64) {
  asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(to), WIDE_IN(v));
}
#endif

// --- operations -------------------------------------------------------------------------------

// read: c = partial sums of a. write: c = s. copy: c = a. scale: c = s a. add: c = a + b.
// triad: c = a + s b. dot: c = partial sums of a b.
enum class Op { read, write, copy, scale, add, triad, dot };
#ifndef OP
#define OP read
#endif
#ifndef DTYPE
#define DTYPE int32
#endif
constexpr Op kOp = Op::OP;
constexpr bool kReadsA = kOp != Op::write;
constexpr bool kReadsB = kOp == Op::add || kOp == Op::triad || kOp == Op::dot;
constexpr bool kReduces = kOp == Op::read || kOp == Op::dot;

typedef DTYPE Format;
typedef Format::Unit Unit;
typedef Format::Sum Sum;
typedef Format::Element Element;
constexpr int kUnits = PACK_BYTES / int(sizeof(Unit));
constexpr int kElements = PACK_BYTES / int(sizeof(Element));

DEVICE void get(const Pack& v, int i, u32& unit) { unit = v.word[i]; }
DEVICE void get(const Pack& v, int i, double& unit) {
  unit = __hiloint2double(int(v.word[2 * i + 1]), int(v.word[2 * i]));
}
DEVICE void put(Pack& v, int i, u32 unit) { v.word[i] = unit; }
DEVICE void put(Pack& v, int i, double unit) {
  v.word[2 * i] = u32(__double2loint(unit));
  v.word[2 * i + 1] = u32(__double2hiint(unit));
}

// One running sum per unit of a pack, so that additions do not wait for one another.
struct Totals {
  Sum unit[kUnits];
};

DEVICE Pack apply(const Pack& a, const Pack& b, Unit s, Totals& totals) {
  Pack c = a;
#pragma unroll
  for (int i = 0; i < kUnits; ++i) {
    Unit x, y;
    get(a, i, x);
    get(b, i, y);
    if constexpr (kOp == Op::write) put(c, i, s);
    if constexpr (kOp == Op::scale) put(c, i, Format::scale(s, x));
    if constexpr (kOp == Op::add) put(c, i, Format::add(x, y));
    if constexpr (kOp == Op::triad) put(c, i, Format::triad(x, s, y));
    if constexpr (kOp == Op::read) totals.unit[i] = Format::sum(totals.unit[i], x);
    if constexpr (kOp == Op::dot) totals.unit[i] = Format::dot(totals.unit[i], x, y);
  }
  return c;
}

struct Stream {
  const Pack* a;
  const Pack* b;
  Pack* c;
  Unit s;
  u64 policy;
};

// A lone element travels as the lowest of a pack of zeros, which add nothing to a sum.
DEVICE Pack widen(Element x) {
  Pack v = {};
  v.word[0] = u32(x);
  if constexpr (sizeof(Element) == 8) v.word[1] = u32(u64(x) >> 32);
  return v;
}
DEVICE Element narrow(const Pack& v) {
  if constexpr (sizeof(Element) == 8) return Element(u64(v.word[1]) << 32 | v.word[0]);
  return Element(v.word[0]);
}

// What whole tiles leave over, by the threads of one block: packs from `first_pack` on, then the
// elements that fill no pack.
DEVICE void finish(const Stream& w, i64 first_pack, i64 count, Totals& totals) {
  const i64 packs = u64(count) / kElements;
#pragma unroll 1
  for (i64 i = first_pack + threadIdx.x; i < packs; i += THREADS) {
    Pack a = {}, b = {};
    if constexpr (kReadsA) a = load(w.a + i, w.policy);
    if constexpr (kReadsB) b = load(w.b + i, w.policy);
    const Pack c = apply(a, b, w.s, totals);
    if constexpr (!kReduces) store(w.c + i, c, w.policy);
  }
#pragma unroll 1
  for (i64 i = packs * kElements + threadIdx.x; i < count; i += THREADS) {
    Pack a = {}, b = {};
    if constexpr (kReadsA) a = widen(((const Element*)w.a)[i]);
    if constexpr (kReadsB) b = widen(((const Element*)w.b)[i]);
    const Pack c = apply(a, b, w.s, totals);
    if constexpr (!kReduces) ((Element*)w.c)[i] = narrow(c);
  }
}

// Adds up a block's totals and writes them as entry `blockIdx.x` of the partial sums; entries
// that no block owns become zero, so that all of them always count.
constexpr int kPartials = 4096;

DEVICE void write_partial_sum(const Totals& totals, Sum* partials) {
  __shared__ Sum warps[32];
  Sum sum = totals.unit[0];
#pragma unroll
  for (int i = 1; i < kUnits; ++i) sum += totals.unit[i];
  for (int lane = 16; lane; lane >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, lane);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
  __syncthreads();
  if (threadIdx.x != 0) return;
#pragma unroll 1
  for (int i = 1; i < THREADS / 32; ++i) sum += warps[i];
  partials[blockIdx.x] = sum;
#pragma unroll 1
  for (u32 i = blockIdx.x + gridDim.x; i < kPartials; i += gridDim.x) partials[i] = Sum(0);
}
