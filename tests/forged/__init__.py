"""Requests that prove nothing, by the thousand, at a real gateway: none is taken, and none is answered 5xx.

`python -m tests.forged --help`, `make forged`.
"""
