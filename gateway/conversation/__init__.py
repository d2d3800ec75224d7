"""What is stored about one conversation: its mailbox, its records, its outbox.

May import: `gateway.store`, `gateway.events`, `config`. Workers import it from here.
"""
