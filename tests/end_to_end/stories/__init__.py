"""The stories of skills, from a message to what comes back: one file each, on real processes, in other words each run."""
