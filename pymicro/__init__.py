"""pymicro: GPU kernel micro-benchmarks, and what they say about whole jobs."""

__version__ = "0.1.0"
