"""Errors that end a drill."""


class DrillError(Exception):
    """Something that a drill needs is missing."""


class Cancelled(Exception):
    """The whole run was interrupted."""
