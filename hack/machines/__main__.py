"""Runs a command in a machine: `python3 hack/machines SOCKET COMMAND...`. A pipe on standard input
is passed on.
"""

import os
import shlex
import socket
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from machines import channel

PATIENCE = 3600.0
FORWARDED = ("PATH", "LD_LIBRARY_PATH")


def main(path: str, *words: str) -> int:
    given = "" if not stat.S_ISFIFO(os.fstat(0).st_mode) else sys.stdin.read()
    exports = [f"export {name}={shlex.quote(os.environ.get(name, ''))}" for name in FORWARDED]
    script = "\n".join([*exports, f"{shlex.join(words)} <<'END-OF-INPUT'", f"{given}END-OF-INPUT"])
    with socket.socket(socket.AF_UNIX) as port:
        port.settimeout(PATIENCE)
        port.connect(path)
        result = channel.run(port, script, PATIENCE)
    sys.stdout.write(result.output)
    sys.stderr.write(result.errors)
    return result.status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
