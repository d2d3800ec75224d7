"""The mailbox, searched: every order in which gateways, workers and Redis can act, with faults, on the scripts as they are.

`states` runs the real scripts on a real server, from any stored state; `actors` is what gateways and workers do with them;
`search` goes through all states; `cases` says which plays are searched, and what is taken out of them. What the actors ask
is held to be what `Mailbox` asks by `test_model_asks.py`.
"""
