"""The agent loop: asking the model, what an answer leads to next, and what happens while the model is away."""
