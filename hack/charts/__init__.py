"""Writes what is generated from the charts, and shows what a change of them changes."""
