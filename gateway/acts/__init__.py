"""Acts: what people do about skills, notes, tools, pairing and dead letters, by chat, page, API or command line: one set of rules for all."""
