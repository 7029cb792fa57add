"""Judging stored results. Nothing here measures, so all of it runs without a GPU."""
