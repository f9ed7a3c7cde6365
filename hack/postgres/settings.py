"""The variables of the environment, and their defaults."""

import ipaddress
import os
from pathlib import Path

from local import settings as local
from postgres.instance import Settings
from tools.errors import ToolError

VARIABLES = ("POSTGRES_PORT", "POSTGRES_ADDRESS", "POSTGRES_TLS", "INSTANCE")


def folder() -> Path:
    """The folder of the instance. Those of `make up` do not begin with a dot."""
    return local.REPOSITORY / ".run" / ".postgres" / local.run_folder().name


def load() -> Settings:
    """The settings of the environment."""
    address = os.environ.get("POSTGRES_ADDRESS") or "127.0.0.1"
    try:
        ipaddress.ip_address(address)
    except ValueError:
        raise ToolError(
            f"POSTGRES_ADDRESS={address}: must be an IP address of this machine"
        ) from None
    tls = os.environ.get("POSTGRES_TLS") or "off"
    if tls not in ("on", "off"):
        raise ToolError(f"POSTGRES_TLS={tls}: must be on or off")
    port = local.number("POSTGRES_PORT", local.POSTGRES_PORT, 1, 65535)
    return Settings(port, address, tls=tls == "on")
