"""A name that NumPy 2.5 dropped and numba-cuda 0.30.4 still looks up when it first compiles."""

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # It was an alias of just this.
