"""What Redis holds about skills: bundles and snapshots, switches and trust, notes, and who changed what."""
