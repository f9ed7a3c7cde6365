"""The error whose text the user sees."""


class ToolError(Exception):
    """Its text names the object, the cause and the remedy."""
