"""Obtains the pinned tools that build, run and test Corelane."""
