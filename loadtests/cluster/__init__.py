"""Runs a scenario inside a cluster, on several runners of k6, with the chart `charts/loadtest`."""
