"""`field`: Corelane beside what a user would pick instead, on the same machine in one run."""
