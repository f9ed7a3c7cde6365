"""Prints one key of the ConfigMap that is read from standard input; nothing where it is not there.

Runs with the Python that supervisord runs with, because it has PyYAML.
"""

import sys

import yaml

print(yaml.safe_load(sys.stdin)["data"].get(sys.argv[1], ""), end="")
