"""`field`: Corelane compared with its alternatives, on the same machine in one run."""
