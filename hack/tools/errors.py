"""The error that users see, and the exit status of hack's commands."""

import os
import signal
import sys
from collections.abc import Callable


class ToolError(Exception):
    """The text contains the object, the cause and the remedy."""


def status_of(command: Callable[[], int | None]) -> int:
    """None counts as 0. Users run the command as make or corelane, not as hack/NAME."""
    try:
        status = command()
        sys.stdout.flush()
        return status or 0
    except ToolError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader has closed the pipe, as head(1) does. At exit, Python flushes again, which must
        # not fail again (Python's signal documentation, "Note on SIGPIPE").
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
