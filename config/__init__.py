"""What the operator decides: settings and profiles.

May import: nothing of ours. `settings.py` is the only reader of the environment.
"""
