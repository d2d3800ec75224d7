"""Who may what, where, and why: one decision, the roles behind it, and what was approved of others' tools."""
