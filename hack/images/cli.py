"""The commands of `python3 hack/images`."""

import argparse
import re
import shlex
import tempfile
from collections.abc import Iterable
from pathlib import Path

from images import build, definitions, foreign, packages, platforms, push, reproduce, rust
from images.archive import Archive
from images.build import Options
from images.stamp import Stamp
from tools import errors
from tools.errors import ToolError


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return errors.status_of(lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python3 hack/images",
        description="Builds Corelane's container images as OCI archives.",
        epilog=f"Images: {', '.join(definitions.DEFINITIONS)}.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    make = commands.add_parser("build", help="build images, by default all")
    make.set_defaults(run=_build)
    make.add_argument(
        "--tag",
        default="",
        help="tag of the images, by default the version; {digest} becomes 12 digits of the digest",
    )
    make.add_argument("--out", type=Path, default=build.FOLDER, help="default: .run/images")
    again = commands.add_parser(
        "verify", help="build images twice, the second time in a new clone, and compare them"
    )
    again.set_defaults(run=_verify)
    send = commands.add_parser("push", help="build one image and push it to a registry")
    send.set_defaults(run=_push)
    send.add_argument("reference", metavar="HOST/PATH/IMAGE:TAG")
    for command in (make, send):
        command.add_argument(
            "--profile",
            default=rust.RELEASE,
            help="cargo profile; images for tests build sooner with `local`. Default: %(default)s",
        )
    for command in (make, again):
        command.add_argument("names", nargs="*", metavar="NAME")
    for command in (make, again, send):
        command.add_argument(
            "--arch",
            type=_arches,
            default=[],
            metavar="ARCH[,ARCH]",
            help=f"of {', '.join(platforms.PLATFORMS)}; default: this machine's",
        )
    _add_others(commands)
    lock = commands.add_parser("lock", help="write Debian's current packages into debian.json")
    lock.set_defaults(run=lambda _options: packages.lock())
    return parser


def _add_others(commands: argparse._SubParsersAction) -> None:
    package = commands.add_parser("project", help="build the image of a binary of any Cargo.toml")
    package.set_defaults(run=_project)
    package.add_argument("manifest", type=Path, metavar="Cargo.toml")
    package.add_argument("--bin", default="", help="binary, if there are several")
    package.add_argument("--profile", default="release", help="cargo profile; default: %(default)s")
    package.add_argument(
        "--file", dest="files", action="append", default=[], metavar="FILE=PATH", help="a file more"
    )
    any_files = commands.add_parser("files", help="build an image of files, in any language")
    any_files.set_defaults(run=_files)
    any_files.add_argument("name", metavar="NAME")
    any_files.add_argument("files", nargs="+", metavar="FILE=PATH", help="also whole folders")
    any_files.add_argument(
        "--entrypoint", required=True, metavar="'PROGRAM ARGUMENT...'", help="in the image"
    )
    for command in (package, any_files):
        command.add_argument(
            "--tag", default="", help="default: the version of the package, or dev"
        )
        command.add_argument("--out", type=Path, default=build.FOLDER, help="default: .run/images")
        command.add_argument("--arch", type=_arches, default=[], metavar="ARCH[,ARCH]")


def _project(arguments: argparse.Namespace) -> None:
    options = Options(arguments.tag, arguments.arch, arguments.profile, arguments.out.resolve())
    found = foreign.project(arguments.manifest, arguments.bin, foreign.entries(arguments.files))
    _show(build.make([found.definition], found.stamp, options))


def _files(arguments: argparse.Namespace) -> None:
    options = Options(arguments.tag, arguments.arch, out=arguments.out.resolve())
    definition = foreign.files(
        arguments.name, shlex.split(arguments.entrypoint), foreign.entries(arguments.files)
    )
    _show(build.make([definition], Stamp("dev", "", 0), options))


def _arches(text: str) -> list[str]:
    """Also accepts Skaffold's form: linux/amd64."""
    return [name.strip().removeprefix("linux/") for name in text.split(",") if name]


def _build(arguments: argparse.Namespace) -> None:
    out = arguments.out.resolve()
    options = Options(arguments.tag, arguments.arch, arguments.profile, out)
    _show(build.build(arguments.names, options))


def _show(built: Iterable[Archive]) -> None:
    for each in built:
        size = each.file.stat().st_size / 1e6
        print(f"{each.image.name}:{each.image.tag}  {each.digest}  {size:.1f} MB  {each.file}")


def _verify(arguments: argparse.Namespace) -> None:
    reproduce.verify(arguments.names, arguments.arch)


def _push(arguments: argparse.Namespace) -> None:
    # Without a dot or colon, crane would treat the first part as a user of its default registry.
    form = re.fullmatch(r"([^/]*[.:][^/]*/(?:[^/:]+/)*([^/:]+)):([^/:]+)", arguments.reference)
    if not form:
        raise ToolError(
            f"{arguments.reference!r} should be HOST/PATH/IMAGE:TAG. Skaffold adds the registry of "
            "--default-repo; without a registry, use skaffold run --profile local"
        )
    repository, image, tag = form.groups()
    names = [each.name for each in definitions.DEFINITIONS.values() if each.image == image]
    if not names:
        known = ", ".join(each.image for each in definitions.DEFINITIONS.values())
        raise ToolError(f"{image!r} in {arguments.reference} should be one of {known}")
    with tempfile.TemporaryDirectory() as folder:
        options = Options(tag, arguments.arch, arguments.profile, Path(folder))
        pushed = [push.image(each, repository) for each in build.build(names, options)]
    if len(pushed) == 1:
        push.tag(pushed[0], tag)
    else:
        push.index(pushed, arguments.reference)
