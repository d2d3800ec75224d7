"""Machines: chance does one thing after another to a real part on a real Redis, and a model in plain Python says what must
have come of it. What went wrong is told as the shortest row of steps that leads there.
"""
