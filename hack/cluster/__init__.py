"""Two real Kubernetes nodes on one machine, without Docker."""
