// Looks over a whole array on the device, of 1, 2, 4 or 8 byte elements (-DBITS=8 and so on).
//
//   first_break(array, count, period, first)   least i >= period with array[i] != array[i - period]
//                                              goes to *first, which holds `count` before
//   bit_sum(array, count, sum)                 adds the elements' bits to *sum, mod 2^64

typedef unsigned long long u64;
typedef long long i64;
#if BITS == 8
typedef unsigned char Element;
#elif BITS == 16
typedef unsigned short Element;
#elif BITS == 32
typedef unsigned Element;
#else
typedef u64 Element;
#endif

extern "C" __global__ void first_break(const Element* array, i64 count, i64 period, u64* first) {
  const i64 step = i64(gridDim.x) * blockDim.x;
  u64 found = u64(count);
  for (i64 i = period + i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    if (array[i] != array[i - period] && u64(i) < found) found = u64(i);
  if (found != u64(count)) atomicMin(first, found);
}

extern "C" __global__ void bit_sum(const Element* array, i64 count, u64* sum) {
  const i64 step = i64(gridDim.x) * blockDim.x;
  u64 own = 0;
  for (i64 i = i64(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step) own += array[i];
  for (int lane = 16; lane; lane >>= 1) own += __shfl_down_sync(0xffffffffu, own, lane);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, own);
}
