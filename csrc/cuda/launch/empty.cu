// Kernels that do next to nothing, so that what remains is the price of launching them with no,
// 3 and 16 arguments. Those with arguments leave *out = the sum of *in and n over all of them: one
// thread, a handful of loads, and a proof that every argument arrived.

extern "C" __global__ void args0() {}

extern "C" __global__ void args3(unsigned* out, const unsigned* in, unsigned n) { *out = *in + n; }

extern "C" __global__ void args16(unsigned* out, const unsigned* i0, const unsigned* i1,
                                  const unsigned* i2, const unsigned* i3, const unsigned* i4,
                                  unsigned n0, unsigned n1, unsigned n2, unsigned n3, unsigned n4,
                                  unsigned n5, unsigned n6, unsigned n7, unsigned n8,
                                  unsigned n9) {
  *out = *i0 + *i1 + *i2 + *i3 + *i4 + n0 + n1 + n2 + n3 + n4 + n5 + n6 + n7 + n8 + n9;
}
