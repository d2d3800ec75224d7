"""What Redis holds about skills: bundles and snapshots, switches and trust, notes, and the scripts that change them and write the audit log."""
