"""Pages that deskmate itself serves: the chat page, its door, and a client for its HTTP API.

Handlers here turn HTTP into calls of `intake`, `feed` and the records, and back. They decide nothing else.
"""
