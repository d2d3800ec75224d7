"""The kill sweep: at each message of a turn, before and after it, a process dies; another one goes on. See `--help`."""
