"""What several rows of this dashboard use."""

from grafana.panels import Limits

BUSY = Limits(0.7, 0.9)

WAIT = Limits(0.01, 0.05)

UNEVEN = Limits(1.3, 1.6)
"""16 connections hashed over 4 lanes leave the hottest with 1.54 times the mean."""
