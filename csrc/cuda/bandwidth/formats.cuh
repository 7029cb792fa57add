// Arithmetic of the streams, a 32-bit or 64-bit unit at a time, without headers of the toolkit:
// `-DDTYPE=fp16` selects a format. A unit holds one or more elements; `Sum` is what they are
// added up in. Integers wrap. No value of a format matters here except its bits and its width.

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef long long i64;

#define DEVICE __device__ __forceinline__

struct fp64 {
  typedef double Unit, Sum;
  typedef u64 Element;
  static DEVICE double splat(double s) { return s; }
  static DEVICE double scale(double s, double x) { return s * x; }
  static DEVICE double add(double x, double y) { return x + y; }
  static DEVICE double triad(double x, double s, double y) { return fma(s, y, x); }
  static DEVICE double sum(double total, double x) { return total + x; }
  static DEVICE double dot(double total, double x, double y) { return fma(x, y, total); }
};

DEVICE float as_float(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 as_bits(float x) { return __float_as_uint(x); }

struct fp32 {
  typedef u32 Unit, Element;
  typedef float Sum;
  static DEVICE u32 splat(double s) { return as_bits(float(s)); }
  static DEVICE u32 scale(u32 s, u32 x) { return as_bits(as_float(s) * as_float(x)); }
  static DEVICE u32 add(u32 x, u32 y) { return as_bits(as_float(x) + as_float(y)); }
  static DEVICE u32 triad(u32 x, u32 s, u32 y) {
    return as_bits(fmaf(as_float(s), as_float(y), as_float(x)));
  }
  static DEVICE float sum(float total, u32 x) { return total + as_float(x); }
  static DEVICE float dot(float total, u32 x, u32 y) {
    return fmaf(as_float(x), as_float(y), total);
  }
};

// Two 16-bit numbers in a unit; `Half` gives their float values and the packed multiply-add.
template <class Half>
struct Pair {
  typedef u32 Unit;
  typedef u16 Element;
  typedef float Sum;
  static DEVICE u32 splat(double s) { return Half::narrow(float(s)) * 0x10001u; }
  static DEVICE u32 scale(u32 s, u32 x) { return Half::fma2(s, x, 0x80008000u); }  // + (-0)
  static DEVICE u32 add(u32 x, u32 y) { return Half::fma2(Half::one * 0x10001u, x, y); }
  static DEVICE u32 triad(u32 x, u32 s, u32 y) { return Half::fma2(s, y, x); }
  static DEVICE float sum(float total, u32 x) {
    return (total + Half::widen(u16(x))) + Half::widen(u16(x >> 16));
  }
  static DEVICE float dot(float total, u32 x, u32 y) {
    total = fmaf(Half::widen(u16(x)), Half::widen(u16(y)), total);
    return fmaf(Half::widen(u16(x >> 16)), Half::widen(u16(y >> 16)), total);
  }
};

struct Fp16Half {
  static constexpr u32 one = 0x3c00;
  static DEVICE float widen(u16 bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
  static DEVICE u32 narrow(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
  }
  static DEVICE u32 fma2(u32 x, u32 y, u32 z) {
    u32 r;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
    return r;
  }
};

struct Bf16Half {
  static constexpr u32 one = 0x3f80;
  static DEVICE float widen(u16 bits) { return as_float(u32(bits) << 16); }
  static DEVICE u32 narrow(float value) {  // nearest even; NaN keeps its sign and stays NaN
    const u32 bits = as_bits(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  }
  static DEVICE u32 fma2(u32 x, u32 y, u32 z) {
#if __CUDA_ARCH__ >= 800
    u32 r;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z));
    return r;
#else
    const float low = fmaf(widen(u16(x)), widen(u16(y)), widen(u16(z)));
    const float high = fmaf(widen(u16(x >> 16)), widen(u16(y >> 16)), widen(u16(z >> 16)));
    return narrow(low) | narrow(high) << 16;
#endif
  }
};

typedef Pair<Fp16Half> fp16;
typedef Pair<Bf16Half> bf16;

struct int32 {
  typedef u32 Unit, Element, Sum;
  static DEVICE u32 splat(double s) { return u32(int(s)); }
  static DEVICE u32 scale(u32 s, u32 x) { return s * x; }
  static DEVICE u32 add(u32 x, u32 y) { return x + y; }
  static DEVICE u32 triad(u32 x, u32 s, u32 y) { return x + s * y; }
  static DEVICE u32 sum(u32 total, u32 x) { return total + x; }
  static DEVICE u32 dot(u32 total, u32 x, u32 y) { return total + x * y; }
};

// Four bytes in a unit, handled as two pairs with room for a carry between them.
struct int8 {
  typedef u32 Unit, Sum;
  typedef u8 Element;
  static constexpr u32 even = 0x00ff00ffu;
  static DEVICE u32 splat(double s) { return (u32(int(s)) & 0xffu) * 0x01010101u; }
  static DEVICE u32 scale(u32 s, u32 x) { return triad(0, s, x); }
  static DEVICE u32 add(u32 x, u32 y) {
    return ((x & 0x7f7f7f7fu) + (y & 0x7f7f7f7fu)) ^ ((x ^ y) & 0x80808080u);
  }
  static DEVICE u32 triad(u32 x, u32 s, u32 y) {
    const u32 low = ((s & 0xffu) * (y & even) & even) + (x & even);
    const u32 high = ((s & 0xffu) * (y >> 8 & even) & even) + (x >> 8 & even);
    return (low & even) | (high & even) << 8;
  }
  static DEVICE u32 sum(u32 total, u32 x) { return dot(total, x, 0x01010101u); }
  static DEVICE u32 dot(u32 total, u32 x, u32 y) {
    u32 r;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(total));
    return r;
  }
};
