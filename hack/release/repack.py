"""Rewrites a .tgz so that its bytes depend on its files only."""

import gzip
import tarfile
from io import BytesIO
from pathlib import Path, PurePosixPath


def repack(file: Path, time: int) -> None:
    """Sorts the files of a .tgz and sets their modification times.

    `helm package` writes the charts of a chart in an order that changes from run to run.
    """
    with tarfile.open(file, "r:gz") as archive:
        contents = {
            member.name: archive.extractfile(member).read() for member in archive if member.isfile()
        }
    packed = BytesIO()
    # Without a name and a time of its own in gzip's header.
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w") as archive,
    ):
        for name in sorted(contents, key=_place):
            member = tarfile.TarInfo(name)
            member.mode, member.mtime, member.size = 0o644, time, len(contents[name])
            archive.addfile(member, BytesIO(contents[name]))
    file.write_bytes(packed.getvalue())


def _place(name: str) -> tuple[bool, str]:
    """The chart's own Chart.yaml comes first, as in archives that Helm writes."""
    return len(PurePosixPath(name).parts) != 2 or not name.endswith("/Chart.yaml"), name
