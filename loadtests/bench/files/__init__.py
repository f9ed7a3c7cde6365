"""CPU per request of static files: Corelane beside nginx and other file servers."""
