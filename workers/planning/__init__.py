"""Work in steps, for /plan and /team: branches of one turn, each with a head of its own."""
