"""`compare`: is this tree slower than another commit? Both run on one machine, in turns."""
