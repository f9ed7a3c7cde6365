"""Connections that wait: what each costs, and what live requests notice of a hundred thousand."""
