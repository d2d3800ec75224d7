"""Turns: take events, ask the model, run tools, reply.

May import: everything below (`gateway`, `skills`, `config`).
"""
