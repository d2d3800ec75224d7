"""What the model is sent: read from the records, offered, loaded, and made to fit."""
