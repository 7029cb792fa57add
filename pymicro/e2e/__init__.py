"""Whole jobs: the real model code, run and timed phase by phase, or recorded as a trace."""
