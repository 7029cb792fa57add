// One wgmma instruction, m64 x INSTRUCTION_N x 32 bytes of k, for the FORMAT chosen by the macros:
// D (registers of four warps) += A (shared memory) * B (shared memory), both K-major with the
// 128-byte swizzle. Reads FORMAT_{FP16,BF16,E4M3,INT8,TF32} and INSTRUCTION_N.

#if defined(FORMAT_FP16)
#define WGMMA_TYPES "k16.f32.f16.f16"
#elif defined(FORMAT_BF16)
#define WGMMA_TYPES "k16.f32.bf16.bf16"
#elif defined(FORMAT_E4M3)
#define WGMMA_TYPES "k32.f32.e4m3.e4m3"
#elif defined(FORMAT_INT8)
#define WGMMA_TYPES "k32.s32.s8.s8"
#elif defined(FORMAT_TF32)
#define WGMMA_TYPES "k8.f32.tf32.tf32"
#endif

// What follows the predicate: no negation of A and B, and for 16-bit types no transposition.
#if defined(FORMAT_FP16) || defined(FORMAT_BF16)
#define WGMMA_FLAGS ", 1, 1, 0, 0"
#elif defined(FORMAT_INT8)
#define WGMMA_FLAGS ""
#else
#define WGMMA_FLAGS ", 1, 1"
#endif

#ifdef FORMAT_INT8
typedef int Accumulator;
#define SUM "r"  // the asm constraint of one accumulator
#else
typedef float Accumulator;
#define SUM "f"
#endif

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#define NAMES4(a, b, c, d) "%" #a ", %" #b ", %" #c ", %" #d
#define TEN(t)                                                                            \
  "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t \
  "8, %" #t "9, "
#define HAVE4(i) "+" SUM(d[i]), "+" SUM(d[i + 1]), "+" SUM(d[i + 2]), "+" SUM(d[i + 3])
#define HAVE16(i) HAVE4(i), HAVE4(i + 4), HAVE4(i + 8), HAVE4(i + 12)
#define HAVE32(i) HAVE16(i), HAVE16(i + 16)

// Register names %0..%(N/2-1), the operands behind them, and the numbers of the three that follow.
#if INSTRUCTION_N == 64
#define NAMES TEN() TEN(1) TEN(2) "%30, %31"
#define HAVE HAVE32(0)
#define REST "%32, %33, p"
#define SCALE "%34"
#elif INSTRUCTION_N == 128
#define NAMES TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) NAMES4(60, 61, 62, 63)
#define HAVE HAVE32(0), HAVE32(32)
#define REST "%64, %65, p"
#define SCALE "%66"
#elif INSTRUCTION_N == 192
#define NAMES TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) \
  "%90, %91, " NAMES4(92, 93, 94, 95)
#define HAVE HAVE32(0), HAVE32(32), HAVE32(64)
#define REST "%96, %97, p"
#define SCALE "%98"
#elif INSTRUCTION_N == 256
#define NAMES TEN() TEN(1) TEN(2) TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) TEN(9) TEN(10) TEN(11) \
  NAMES4(120, 121, 122, 123) ", " NAMES4(124, 125, 126, 127)
#define HAVE HAVE32(0), HAVE32(32), HAVE32(64), HAVE32(96)
#define REST "%128, %129, p"
#define SCALE "%130"
#endif

// d = a * b, plus the old d unless `add` is 0.
DEVICE void wgmma(Accumulator* d, u64 a, u64 b, u32 add) {
  asm volatile(
      "{ .reg .pred p;\n"
      "setp.ne.b32 p, " SCALE ", 0;\n"
      "wgmma.mma_async.sync.aligned.m64n" TEXT(INSTRUCTION_N) WGMMA_TYPES
      " {" NAMES "}, " REST WGMMA_FLAGS "; }"
      : HAVE
      : "l"(a), "l"(b), "r"(add));
}

// Before the first wgmma that touches registers which other instructions wrote.
DEVICE void wgmma_fence() {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int pending>
DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Matrix descriptor of a K-major operand, 128-byte rows, 128-byte swizzle (PTX ISA, "Matrix
// descriptor"): address/16 in bits 0-13, 1024 bytes from one group of eight rows to the next in
// bits 32-45, swizzle mode 1 in bits 62-63. The leading offset is not used by this layout.
//
// The lower half, to which multiples of 16 bytes are added, and the whole: arithmetic on whole ones
// would take twice the instructions.
DEVICE u32 lower_descriptor(u32 address) { return 1u << 16 | (address & 0x3ffff) >> 4; }

DEVICE u64 descriptor(u32 lower) { return (1ull << 62) | (64ull << 32) | lower; }
