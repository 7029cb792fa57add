// Which tile of C a block computes. The grid is one row of blocks; neighbours in time share a
// band of RASTER_BAND tile rows, so that their panels of A and B are still in the L2 cache.

#ifndef RASTER_BAND
#define RASTER_BAND 8
#endif

struct Tile {
  int row, column;  // of C, in tiles
};

// The `index`-th tile in that order.
__device__ __forceinline__ Tile tile_at(int index, int m_tiles, int n_tiles) {
  const int band = index / (RASTER_BAND * n_tiles);
  const int first = band * RASTER_BAND;
  const int rows = min(RASTER_BAND, m_tiles - first);
  const int within = index - first * n_tiles;
  return {first + within % rows, within / rows};
}

__device__ __forceinline__ Tile tile_of_block(int m_tiles, int n_tiles) {
  return tile_at(blockIdx.x, m_tiles, n_tiles);
}

__device__ __forceinline__ int tiles_of(int size, int tile) { return (size - 1) / tile + 1; }
