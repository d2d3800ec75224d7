"""Attacks on who may what: rows of the attack corpus (S-I identity, S-A approvals, S-L logs), each with a test that names it."""
