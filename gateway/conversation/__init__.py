"""What is stored about one conversation: its mailbox, its records, its outbox.

It knows no platform and no rights. Workers and the admin pages import it from here.
"""
