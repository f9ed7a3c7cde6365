"""What ends a drill."""


class DrillError(Exception):
    """Something that a drill needs is not there, or does not come."""


class Cancelled(Exception):
    """The whole run ends."""
