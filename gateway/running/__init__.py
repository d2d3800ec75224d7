"""Processes of ours: how they begin and end, the Redis beside them, everything on one machine."""
