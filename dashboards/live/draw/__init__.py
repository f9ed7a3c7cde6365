"""Draws dashboards as pictures, in the manner of Grafana."""
