"""What the agent asks of people, and their words on it."""
