"""Builds the container images of Corelane as OCI archives: without a daemon, and reproducibly."""
