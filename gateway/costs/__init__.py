"""What is spent, by whom, and how much may be: accounts, budgets, the ledger; messages a minute."""
