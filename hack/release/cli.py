"""The commands of `python3 hack/release`."""

import argparse
import re
import signal
from pathlib import Path

from release import artefacts, build, dry_run, images, provenance, publish, signer, verify, version
from tools import ending
from tools.errors import ToolError

REPOSITORY = Path(__file__).resolve().parent.parent.parent
FOLDER = REPOSITORY / ".run" / "release"


def main(arguments: list[str]) -> int:
    """Runs one command and returns its exit status."""
    options = _parser().parse_args(arguments)
    return ending.status_of("release", lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 hack/release", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _version_commands(commands)
    make = commands.add_parser("build", help="build the images and their SBOMs into .run/release")
    make.add_argument("--arch", choices=images.ARCHITECTURES, action="append")
    make.set_defaults(run=_build)
    push = commands.add_parser("publish", help="push, sign, attest and verify what build made")
    push.add_argument("registry", metavar="REGISTRY", help="HOST/PATH of images and charts")
    push.add_argument("--identity", required=True, help="of the workflow that runs this")
    push.add_argument("--issuer", required=True, help="of the workflow's identity token")
    push.set_defaults(run=_publish)
    dry = commands.add_parser("dry-run", help="all of it with a registry and a key of its own")
    dry.set_defaults(run=_dry_run)
    return parser


def _version_commands(commands: argparse._SubParsersAction) -> None:
    number = commands.add_parser("version", help="print the version, check it or set it")
    number.set_defaults(run=lambda _: print(version.current(REPOSITORY)))
    actions = number.add_subparsers(metavar="ACTION")
    check = actions.add_parser("check", help="fail where a file says another version")
    check.add_argument("--tag", help="fail too unless this is the tag of the version")
    check.set_defaults(run=_check)
    write = actions.add_parser("set", help="write it everywhere; keep the outgoing charts")
    write.add_argument("version", metavar="X.Y.Z")
    write.set_defaults(run=lambda options: version.write(REPOSITORY, options.version))


def _check(options: argparse.Namespace) -> None:
    if options.tag:
        version.check_tag(REPOSITORY, options.tag)
    else:
        version.check(REPOSITORY)


def _build(options: argparse.Namespace) -> None:
    build.build(REPOSITORY, FOLDER, options.arch or images.ARCHITECTURES)


def _publish(options: argparse.Namespace) -> None:
    # A first part without a dot or a colon is no host to crane, but a user of its default registry.
    if not re.match(r"[^/]*[.:][^/]*/.", options.registry):
        raise ToolError(f"REGISTRY is {options.registry!r}, but should be HOST/PATH")
    if changed := provenance.changed_files(REPOSITORY):
        raise ToolError(
            "what is published is a commit, but there is more here:\n" + "\n".join(changed)
        )
    by_workflow = signer.workflow(options.identity, options.issuer)
    found = publish.publish(REPOSITORY, options.registry, FOLDER, by_workflow, [])
    verify.verify(found, provenance.commit(REPOSITORY), by_workflow, [])
    print(artefacts.table(found))


def _dry_run(_options: argparse.Namespace) -> None:
    # So that what was started is ended, as after Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(artefacts.table(dry_run.run(REPOSITORY, FOLDER)))
