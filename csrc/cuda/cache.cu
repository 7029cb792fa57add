// Fills L2 with lines that no case uses, so that a timed call finds it cold, and in the state in
// which the call itself will leave it: a share of the lines waits to be written back.
//
//   displace(words, packs, dirty, sink)   reads `packs` times 16 bytes; of 1024 threads the first
//                                         `dirty` write instead

struct alignas(16) Pack {
  unsigned word[4];
};

extern "C" __global__ void __launch_bounds__(1024)
    displace(Pack* packs, long long count, unsigned dirty, unsigned* sink) {
  unsigned sum = 0;
  for (long long i = blockIdx.x * 1024ll + threadIdx.x; i < count; i += gridDim.x * 1024ll) {
    Pack v = {};
    if (threadIdx.x < dirty) {
      asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(packs + i), "r"(0u) : "memory");
    } else {
      asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
                   : "l"(packs + i));
    }
    sum |= v.word[0] | v.word[1] | v.word[2] | v.word[3];
  }
  if (sum) *sink = sum;  // The array holds zeros: never, but the compiler cannot know.
}
