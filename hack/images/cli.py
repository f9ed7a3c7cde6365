"""The commands of `python3 hack/images`."""

import argparse
import re
import tempfile
from pathlib import Path

from images import build, definitions, packages, platforms, push, reproduce, rust
from images.build import Options
from tools import ending
from tools.errors import ToolError


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
    lock = commands.add_parser("lock", help="write Debian's current packages into debian.json")
    lock.set_defaults(run=lambda _options: packages.lock())
    return parser


def _arches(text: str) -> list[str]:
    """Architectures, also as Skaffold names them: linux/amd64."""
    return [name.strip().removeprefix("linux/") for name in text.split(",") if name]


def _build(arguments: argparse.Namespace) -> None:
    out = arguments.out.resolve()
    options = Options(arguments.tag, arguments.arch, arguments.profile, out)
    for each in build.build(arguments.names, options):
        size = each.file.stat().st_size / 1e6
        print(f"{each.image.name}:{each.image.tag}  {each.digest}  {size:.1f} MB  {each.file}")


def _verify(arguments: argparse.Namespace) -> None:
    reproduce.verify(arguments.names, arguments.arch)


def _push(arguments: argparse.Namespace) -> None:
    # Without a dot or a colon in it, crane takes the first part for a user of its default registry.
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
