// Which tiles of C a cluster computes, in which order, and along which part of k.
//
// A cluster tile is CLUSTER_M x CLUSTER_N block tiles. The first `whole` cluster tiles are dealt
// out one to a cluster in turn, each with all of k. The rest, which would leave most of the chip
// idle in a last round, are cut along k into equal shares, one share to a cluster ("stream-K" on
// the tail only). A share can end one tile and begin the next. Who begins a tile (k = 0) finishes
// it: the others leave their sums in `partials`.

struct Plan {
  int m, n;                // of C
  int k_steps;             // stages along k
  int rows, columns;       // cluster tiles down and across C
  int group;               // rows of cluster tiles walked together: their panel of A stays in L2
  int whole;               // cluster tiles that one cluster computes alone
  int share;               // k steps of the tail per cluster
  Accumulator* partials;   // one block tile per block
  u32* ready;              // one flag per block and warpgroup, zero before and after a launch
  int product_rows;        // cluster tiles down one of several products, all one below the other
};

struct Piece {
  int row, column;  // first row and column of C of this block
  int k, k_end;     // in steps
#if BATCH
  int rows_before;  // of B: those of the products before this one

  __device__ __forceinline__ int row_of_b() const { return rows_before + column; }
#else
  __device__ __forceinline__ int row_of_b() const { return column; }
#endif
};

struct Schedule {
  int tile, position;  // next whole tile; next step of this cluster's share of the tail

  __device__ __forceinline__ void begin(const Plan& plan) {
    tile = (int)cluster_index();
    position = tile * plan.share;
  }

  __device__ __forceinline__ bool next(const Plan& plan, Piece& piece) {
    int chosen = tile;
    piece.k = 0;
    piece.k_end = plan.k_steps;
    if (tile < plan.whole) {
      tile += (int)cluster_count();
    } else {
      const int tail_steps = (plan.rows * plan.columns - plan.whole) * plan.k_steps;
      const int end = min(((int)cluster_index() + 1) * plan.share, tail_steps);
      if (position >= end) return false;
      const int cut = position / plan.k_steps;
      chosen = plan.whole + cut;
      piece.k = position - cut * plan.k_steps;
      piece.k_end = min(plan.k_steps, piece.k + end - position);
      position += piece.k_end - piece.k;
    }
    const int group = chosen / (plan.group * plan.columns);
    const int inside = chosen - group * plan.group * plan.columns;
    const int height = min(plan.group, plan.rows - group * plan.group);
    int column = inside / height;
    const int row = group * plan.group + inside - column * height;
    const int rank = (int)cluster_rank();
    // There and back, so that a group of rows begins with the columns that the last one ended with.
    if (group % 2) column = plan.columns - 1 - column;
    piece.row = (row * CLUSTER_M + rank % CLUSTER_M) * BLOCK_M;
    piece.column = (column * CLUSTER_N + rank / CLUSTER_M) * BLOCK_N;
#if BATCH
    piece.rows_before = row / plan.product_rows * plan.n;
#endif
    return true;
  }
};
