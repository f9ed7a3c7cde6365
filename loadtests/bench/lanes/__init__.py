"""`bench-lanes`: Corelane's server beside its peers and beside what the kernel alone costs."""
