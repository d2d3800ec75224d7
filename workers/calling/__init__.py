"""Calls of tools: whether they run, what they ask of people, what they may cost, and what came from outside."""
