"""The connection ladder: many connections held open, slow clients, and 20,000 requests at once."""
