"""The commands of `python3 hack/images`."""

import argparse
from pathlib import Path

from images import build, definitions, packages, platforms, read, reproduce
from images.archive import Archive
from tools import ending


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    return ending.status_of("images", lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 hack/images",
        description="Builds Corelane's container images as OCI archives.",
        epilog=f"Images: {', '.join(definitions.DEFINITIONS)}.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    make = commands.add_parser("build", help="build images; all that are not named")
    make.set_defaults(run=_build)
    make.add_argument("--tag", default="", help="tag of the images; default: the version")
    make.add_argument("--out", type=Path, default=build.FOLDER, help="default: .run/images")
    again = commands.add_parser(
        "verify", help="build images twice, from two clones without caches; compare their digests"
    )
    again.set_defaults(run=_verify)
    for command in (make, again):
        command.add_argument("names", nargs="*", metavar="NAME")
        command.add_argument(
            "--arch",
            type=lambda text: text.split(","),
            default=[],
            metavar="ARCH[,ARCH]",
            help=f"of {', '.join(platforms.PLATFORMS)}; default: this machine's",
        )
    check = commands.add_parser("check", help="check every digest in archives, show what they hold")
    check.set_defaults(run=_check)
    check.add_argument("archives", nargs="+", type=Path, metavar="ARCHIVE")
    lock = commands.add_parser("lock", help="take Debian's present packages into debian.json")
    lock.set_defaults(run=lambda _options: packages.lock())
    return parser


def _build(options: argparse.Namespace) -> None:
    out = options.out.resolve()
    for each in build.build(options.names, tag=options.tag, arches=options.arch, out=out):
        _show(each)


def _show(built: Archive) -> None:
    size = built.file.stat().st_size / 1e6
    print(f"{built.image.name}:{built.image.tag}  {built.digest}  {size:.1f} MB  {built.file}")


def _verify(options: argparse.Namespace) -> None:
    reproduce.verify(options.names, options.arch)


def _check(options: argparse.Namespace) -> None:
    for file in options.archives:
        contents = read.read(file)
        print(f"{file}: {contents.descriptor['digest']}, every digest is right")
        for manifest in contents.manifests:
            user = manifest.config["config"]["User"]
            print(f"  {manifest.arch}  {manifest.digest}  user {user}")
            for number, _ in enumerate(manifest.content["layers"]):
                for member in contents.layer(number, manifest):
                    target = f" -> {member.linkname}" if member.issym() else ""
                    print(f"    {member.mode:04o} {member.size:>10} /{member.name}{target}")
