"""`compare`: whether this tree is slower than another commit; both run alternately on one machine."""
