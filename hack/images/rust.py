"""Builds static, reproducible Rust programs from the `services` workspace or any other
workspace."""

import os
import shlex
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from images import platforms
from images.platforms import Platform
from stack import REPOSITORY
from tools import cache, command, debian, progress
from tools.errors import ToolError

SERVICES = REPOSITORY / "services"
TARGET = SERVICES / (os.environ.get("CARGO_TARGET_DIR") or "target") / "images"
SERVER = "corelane-server"

RELEASE = "image"
RELEASE_OTHERS = "image-aside"
"""Profile of all programs of a release except the server. With fat LTO, the agent and its
Kubernetes client would take minutes to build, without a benefit.
"""
DEBUG = "dev"
"""The only profile with debug data."""


@dataclass(frozen=True)
class Workspace:
    folder: Path
    target: Path
    name: str


OURS = Workspace(SERVICES, TARGET, "/corelane/services")

EXAMPLES = "corelane-examples"

PACKAGES = {"corelane": "corelane-cli"} | dict.fromkeys(("cart", "mixed", "orders"), EXAMPLES)
"""Packages whose name differs from the name of their program."""


def package(program: str) -> str:
    return PACKAGES.get(program, program)


def build(
    program: str,
    platform: Platform,
    profile: str = RELEASE,
    others: Iterable[str] = (),
    options: Sequence[str] = (),
) -> Path:
    """`options` are additional cargo options.

    A release builds each package separately. Otherwise, cargo would unite the features of packages
    that are built together, and the server would depend on which other images the build contains.
    Other profiles build the `others` at once, so that all images compile each dependency once.
    """
    release = profile == RELEASE
    if release and program != SERVER:
        profile = RELEASE_OTHERS
    names = [program] if release else sorted({program, *others})
    packages = [word for name in names for word in ("--package", package(name))]
    bins = [word for name in names if name != program for word in ("--bin", name)]
    return build_in(OURS, program, platform, profile, [*options, *packages, *bins])


def build_in(
    workspace: Workspace, program: str, platform: Platform, profile: str, options: Sequence[str]
) -> Path:
    _need_rust(platform)
    variables = environment(workspace, platform, profile)
    # Each architecture has its own folder, because cargo allows only one build in a folder at a
    # time.
    target = workspace.target / platform.arch
    target.mkdir(parents=True, exist_ok=True)
    log = target / f"{program}.log"
    log.unlink(missing_ok=True)
    argv = ["cargo", "build", "--locked", "--profile", profile]
    argv += ["--target", platform.rust, "--target-dir", str(target)]
    argv += ["--bin", program, *options]
    with progress.step(program, f"cargo build --profile {profile} for {platform.arch}", log):
        failure = f"{program} does not build for {platform.rust}"
        command.run(argv, log, failure=failure, cwd=workspace.folder, env=variables)
    # cargo names the `dev` profile's folder `debug`.
    built = target / platform.rust / ("debug" if profile == DEBUG else profile) / program
    _check(workspace, built, platform)
    return built


def environment(workspace: Workspace, platform: Platform, profile: str) -> dict[str, str]:
    """Flags for a static program that names no folder of this machine."""
    places = _places(workspace, profile)
    # These flags determine __FILE__ in C.
    c_flags = [f"-ffile-prefix-map={place}={name}" for place, name in places]
    rust_flags = ["-Ctarget-feature=+crt-static"]
    rust_flags += [f"--remap-path-prefix={place}={name}" for place, name in places]
    environment = {
        "CARGO_ENCODED_RUSTFLAGS": "\x1f".join(rust_flags),
        f"CFLAGS_{platform.rust.replace('-', '_')}": shlex.join(c_flags),
        "CC_SHELL_ESCAPED_FLAGS": "1",
        "CARGO_INCREMENTAL": "0",
        # gcc takes __DATE__ and __TIME__, which mimalloc contains, from this variable. The value is
        # constant because cargo would recompile for a different value.
        "SOURCE_DATE_EPOCH": "0",
    }
    if platform != platforms.native():
        key = platform.rust.replace("-", "_")
        environment[f"CC_{key}"] = _cross_compiler(platform)
        environment[f"CARGO_TARGET_{key.upper()}_LINKER"] = platform.gcc
    return environment


def _places(workspace: Workspace, profile: str) -> list[tuple[Path, str]]:
    """Folders whose names the compiler would write into a program, with their substitutes. The last
    match wins.

    Cargo passes relative paths of our own sources to the compiler and includes no file that a build
    wrote, so only debug data names folders of this clone. Without debug data, the flags are the
    same in every clone, and clones can share compiled dependencies.
    """
    home = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo")).resolve()
    sysroot = Path(_output("rustc", "--print", "sysroot")).resolve()
    places = [(home, "/cargo"), (sysroot, "/rust")]
    if workspace != OURS or profile == DEBUG:
        places += [(REPOSITORY, "/corelane"), (workspace.folder, workspace.name)]
        places += [(workspace.target, f"{workspace.name}/target")]
    return places


def _sources(workspace: Workspace) -> list[Path]:
    """Folders with compiled files. Their parents are excluded, because their names may be common
    words.
    """
    (cargo, _), (sysroot, _), *_ = _places(workspace, RELEASE)
    ours = [SERVICES, workspace.folder, workspace.target]
    return [cargo / "registry", sysroot / "lib" / "rustlib", *ours]


def _check(workspace: Workspace, program: Path, platform: Platform) -> None:
    found = platforms.read(program)
    if found.machine != platform.machine or found.interpreter or found.needed:
        raise ToolError(f"{program} should be static for {platform.machine}; it is {found}")
    content = program.read_bytes()
    for folder in _sources(workspace):
        if bytes(folder) + b"/" in content:
            raise ToolError(f"{program} names the folder {folder}: it cannot be reproduced")


def _need_rust(platform: Platform) -> None:
    if not shutil.which("cargo"):
        raise ToolError("cargo is not on PATH: install Rust (README, section Requirements)")
    libraries = _output("rustc", "--print", "target-libdir", "--target", platform.rust)
    if Path(libraries).is_dir():
        return
    add = ["rustup", "target", "add", platform.rust]
    if not shutil.which("rustup"):
        raise ToolError(f"this Rust has no target {platform.rust}, and rustup is not installed")
    log = cache.log(f"rustup-{platform.arch}")
    log.unlink(missing_ok=True)
    with cache.lock("rustup"), progress.step("rust", " ".join(add), log):
        command.run(add, log, failure=f"{' '.join(add)} failed", cwd=SERVICES)


def _cross_compiler(platform: Platform) -> str:
    """Returns the C compiler for another architecture; installs it if it is missing."""
    packages = " ".join(platform.cross_packages)
    if not shutil.which(platform.gcc) and not debian.usable():
        raise ToolError(
            f"building for {platform.arch} needs {platform.gcc}. "
            f"As root on Debian: apt-get install {packages}"
        )
    if not shutil.which(platform.gcc):
        for package in platform.cross_packages:
            debian.install(platform.gcc, package)
    return platform.gcc


def _output(*argv: str) -> str:
    return command.output(argv, cwd=SERVICES).strip()
