"""Turns the YAML of standard input into JSON.

Runs with the Python that supervisord runs with, because it has PyYAML.
"""

import json
import sys

import yaml

json.dump(yaml.safe_load(sys.stdin), sys.stdout)
