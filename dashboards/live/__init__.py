"""The whole platform from real parts for a while, and what the dashboards show of it."""
