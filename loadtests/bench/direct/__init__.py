"""One replica directly against the gateway over all of them, under ab: the published test S0."""
