"""Writes files generated from the charts, and shows the effects of a change."""
