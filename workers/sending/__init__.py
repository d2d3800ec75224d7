"""What goes out to people: rows of the outbox, growing answers, cards, and the links in them."""
