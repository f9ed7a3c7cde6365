"""What a program takes from the machine on which it is written, for images of services: certificates, time zones."""

from images.archive import Layered
from images.layer import Entry, File, Folder, Link
from tools import pythonlock, table

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
"""Where OpenSSL's probes, rustls and Go look, as on Debian."""

ZONES = "/usr/share/zoneinfo"

NAMES = b"hosts: files dns\n"
"""Of nsswitch.conf: /etc/hosts before DNS."""

PINNED = 0
"""Modification time of these files: images of all services share their layer."""


def layer() -> Layered:
    """The lowest layer of an image of a service. The versions are in the lock file `image` of hack/tools."""
    certificates = pythonlock.install(table.find("certificates"))
    zones = pythonlock.install(table.find("timezones"))
    entries: list[Entry] = [
        File(CERTIFICATES, certificates),
        # The default of OpenSSL in other distributions.
        Link("/etc/ssl/cert.pem", "certs/ca-certificates.crt"),
        File("/etc/nsswitch.conf", NAMES),
        # The chart mounts the root read-only: a pod that writes there needs a volume.
        Folder("/tmp", 0o1777),
    ]
    files = sorted(file for file in zones.rglob("*") if file.is_file())
    # The package also has files of Python.
    data = (file for file in files if not file.suffix.startswith(".py"))
    entries += [File(f"{ZONES}/{file.relative_to(zones)}", file) for file in data]
    return Layered(entries, PINNED)
