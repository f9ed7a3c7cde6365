"""Connections that park while nothing comes, and that move to another lane: what it gains, and what it costs."""
