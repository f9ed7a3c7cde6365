"""Runs the tiers of checks phase by phase, and repeats them under pressure."""
