"""Whole jobs as data: models, what a job asks of them, and the operators it runs."""
