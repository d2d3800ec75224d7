"""What the checker looks for, by invariants. Each look takes a run and yields what is broken in it."""
