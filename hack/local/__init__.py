"""Runs the whole platform as local processes: replicas, gateway and Prometheus."""
