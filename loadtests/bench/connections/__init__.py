"""`connections`: many connections, idle, moving, slow, and all at once."""
