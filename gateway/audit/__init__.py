"""The audit log, and the chain that its lines are."""
