"""Know-how that is loaded on demand: SKILL.md documents, the library of them, their index.

May import: `config`. Knows no chat and no HTTP.
"""
