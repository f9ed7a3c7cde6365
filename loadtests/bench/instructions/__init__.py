"""Instructions of one request, by callgrind: a table that is kept, and a check against it."""
