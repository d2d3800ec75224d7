"""The outside world: webhooks in, what is stored about a conversation, platforms, pages, the command line.

May import: `skills`, `config`. Never `workers`: the gateway starts without the model's SDK.
"""
