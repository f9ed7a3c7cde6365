"""The metrics contract: every series that a part of Corelane exposes, as data, and its page."""
