"""Builds Corelane's container images as OCI archives: without a daemon, and reproducibly."""
