// Number formats by name, as `-DDTYPE=fp16` selects them, and their conversions, without headers
// of the toolkit. `Stored` is how an operand lies in memory, `Sum` what a product is added up in,
// `Result` how it is stored: fp8 products leave as bf16, int8 products as int32.

#include "common/words.cuh"

DEVICE float fp16_to_float(u16 bits) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
}

DEVICE u16 float_to_fp16(float value) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return bits;
}

// Nearest even in integer arithmetic: the conversion instruction starts at sm_80.
DEVICE u16 float_to_bf16(float value) {
  const u32 bits = __float_as_uint(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
  return u16((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// Moved up by 7 bits, an e4m3 magnitude is an fp16 number 2^8 too small, subnormals included.
DEVICE float fp8_e4m3_to_float(u8 bits) {
  if ((bits & 0x7f) == 0x7f) return __uint_as_float(0x7fffffffu);
  return fp16_to_float(u16((bits & 0x7f) << 7 | (bits & 0x80) << 8)) * 256.0f;
}

struct fp64 {
  typedef double Stored, Sum, Result;
  static DEVICE double widen(double x) { return x; }
  static DEVICE double narrow(double x) { return x; }
};

struct fp32 {
  typedef float Stored, Sum, Result;
  static DEVICE float widen(float x) { return x; }
  static DEVICE float narrow(float x) { return x; }
};

// Stored as fp32; the operands are rounded to 11 bits where they enter the matrix unit.
struct tf32 {
  typedef float Stored, Sum, Result;
  static DEVICE float narrow(float x) { return x; }
};

struct fp16 {
  typedef u16 Stored, Result;
  typedef float Sum;
  static DEVICE float widen(u16 x) { return fp16_to_float(x); }
  static DEVICE u16 narrow(float x) { return float_to_fp16(x); }
};

struct bf16 {
  typedef u16 Stored, Result;
  typedef float Sum;
  static DEVICE float widen(u16 x) { return __uint_as_float(u32(x) << 16); }
  static DEVICE u16 narrow(float x) { return float_to_bf16(x); }
};

struct fp8_e4m3 {
  typedef u8 Stored;
  typedef float Sum;
  typedef u16 Result;
  static DEVICE float widen(u8 x) { return fp8_e4m3_to_float(x); }
  static DEVICE u16 narrow(float x) { return float_to_bf16(x); }
};

struct int8 {
  typedef signed char Stored;
  typedef int Sum, Result;
  static DEVICE int widen(signed char x) { return x; }
  static DEVICE int narrow(int x) { return x; }
};
