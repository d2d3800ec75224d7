"""Whole runs: people who talk, processes and a Redis that die meanwhile, and a verdict over all that was seen.

`python -m tests.chaos --help`. Stands on the lanes of `tests.sweep` and the checker of `tests.harness`.
"""
