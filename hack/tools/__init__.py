"""Obtains the pinned tools that Corelane is built, run and tested with."""
