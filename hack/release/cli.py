"""The commands of `python3 hack/release`."""

import argparse
import re
import signal

from release import artefacts, dry_run, images, provenance, publish, signer, version
from stack import REPOSITORY
from tools import errors
from tools.errors import ToolError

FOLDER = REPOSITORY / ".run" / "release"


def main(arguments: list[str]) -> int:
    options = _parser().parse_args(arguments)
    return errors.status_of(lambda: options.run(options))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 hack/release", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _version_commands(commands)
    make = commands.add_parser("build", help="build the images and their SBOMs into .run/release")
    make.add_argument("--arch", choices=images.ARCHITECTURES, action="append")
    make.set_defaults(run=_build)
    push = commands.add_parser(
        "publish", help="push, sign, attest and verify the built images and the charts"
    )
    push.add_argument("registry", metavar="REGISTRY", help="HOST/PATH of images and charts")
    push.add_argument("--identity", required=True, help="identity of the running workflow")
    push.add_argument("--issuer", required=True, help="issuer of the workflow's identity token")
    push.set_defaults(run=_publish)
    dry = commands.add_parser(
        "dry-run", help="build, publish and verify with a temporary registry and key"
    )
    dry.set_defaults(run=_dry_run)
    return parser


def _version_commands(commands: argparse._SubParsersAction) -> None:
    number = commands.add_parser("version", help="print the version, check it or set it")
    number.set_defaults(run=lambda _: print(version.current(REPOSITORY)))
    actions = number.add_subparsers(metavar="ACTION")
    check = actions.add_parser("check", help="fail if a file has another version")
    check.add_argument("--tag", help="also fail unless this is the tag of the version")
    check.set_defaults(run=_check)
    write = actions.add_parser("set", help="set the version in all files; keep the outgoing charts")
    write.add_argument("version", metavar="X.Y.Z")
    write.set_defaults(run=lambda options: version.write(REPOSITORY, options.version))


def _check(options: argparse.Namespace) -> None:
    if options.tag:
        version.check_tag(REPOSITORY, options.tag)
    else:
        version.check(REPOSITORY)


def _build(options: argparse.Namespace) -> None:
    publish.build(REPOSITORY, FOLDER, options.arch or images.ARCHITECTURES)


def _publish(options: argparse.Namespace) -> None:
    # Without a dot or colon, crane would treat the first part as a user of its default registry.
    if not re.match(r"[^/]*[.:][^/]*/.", options.registry):
        raise ToolError(f"REGISTRY={options.registry!r}: expected HOST/PATH")
    if changed := provenance.changed_files(REPOSITORY):
        raise ToolError(
            "a release is built from a commit; commit or stash these changes:\n"
            + "\n".join(changed)
        )
    by_workflow = signer.workflow(options.identity, options.issuer)
    found = publish.publish(REPOSITORY, options.registry, FOLDER, by_workflow, [])
    publish.verify(found, provenance.commit(REPOSITORY), by_workflow, [])
    print(artefacts.table(found))


def _dry_run(_options: argparse.Namespace) -> None:
    # SIGTERM ends child processes, as Ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print(artefacts.table(dry_run.run(REPOSITORY, FOLDER)))
