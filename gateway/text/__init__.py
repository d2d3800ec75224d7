"""Text for people: Markdown read once, cut where a reader would, and written as each platform takes it."""
