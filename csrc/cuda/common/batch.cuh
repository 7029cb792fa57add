// Several products of one shape, one behind the other in memory: with BATCH=1 blockIdx.y says which
// of them a block works on.

#if BATCH
#define TO_OWN_PRODUCT(a, b, c, m, n, k) \
  a += i64(blockIdx.y) * m * k, b += i64(blockIdx.y) * n * k, c += i64(blockIdx.y) * m * n
#else
#define TO_OWN_PRODUCT(a, b, c, m, n, k)
#endif
