"""One server, clients that come and go for minutes; memory and descriptors stay flat."""
