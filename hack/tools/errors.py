"""The error that is shown to the user as it is."""


class ToolError(Exception):
    """Names the thing, what went wrong and what to do."""
