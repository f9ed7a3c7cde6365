"""`balancing`: which policy lets the fleet carry the most load within its latency objective."""
