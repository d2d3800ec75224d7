"""Replay: a turn runs again, with the model and the tools played from what was recorded, and each request is compared.

May import all of `workers`; nothing there imports it but the command line.
"""
