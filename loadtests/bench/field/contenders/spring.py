"""Spring Boot on Tomcat and on Netty: built by Maven, started as Spring's documentation advises."""

import functools
import hashlib
import re
import shutil
from pathlib import Path

from loadtests.bench.experiment.builds import BENCH
from loadtests.bench.field.contender import (
    COMPUTING,
    CONNECTIONS,
    CORES,
    FILES,
    Contender,
    Installed,
    Start,
    size_of,
)
from tools import cache, command, progress, resolve, table, versions
from tools.errors import ToolError

PROJECT = BENCH / "peers" / "spring"
LOCK = PROJECT / "libraries.sha256"

HEAP = "1g"

SETTINGS = (
    f"Java 17 with `-XX:ActiveProcessorCount` as the number of CPUs, `-Xmx{HEAP}` and otherwise what the "
    "JVM chooses for them (on one CPU the serial collector). The jar is extracted, beans are resolved at build "
    "time (`spring.aot.enabled`), and there is a class-data archive, as Spring Boot's documentation advises for "
    "production (Packaging, Efficient Deployments; CDS). Annotated controllers; files by Spring's resource "
    "handler with its resolver cache; log level warn; connections idle for 75 s at most"
)
TOMCAT = (
    f"{SETTINGS}; Tomcat: 20,000 connections (default 8,192), backlog 4,096, keep-alive without a bound on "
    "requests, its default of 10 to 200 threads. Virtual threads need Java 21"
)
NETTY = (
    f"{SETTINGS}; WebFlux on Reactor Netty with its native epoll transport and its default number of event "
    "loops (at least 4); handlers run on the event loop. Sends no Date, which is its default"
)

COMPILERS = ("C1 CompilerThre", "C2 CompilerThre")
"""HotSpot's; the kernel keeps 15 characters of a name."""


@functools.cache
def _tools() -> dict[str, Path]:
    return resolve.ensure(["java", "mvn"])


def _home() -> Path:
    """The folder of the Java that was found; on PATH it is a link."""
    return _tools()["java"].resolve().parent.parent


def _build(module: str, _profile: str) -> Path:
    """The extracted jar of a module, with its class-data archive."""
    program = PROJECT / module / "target" / "application" / f"{module}-1.jar"
    stamp = program.with_name("built-from")
    state = _state()
    if not (stamp.is_file() and stamp.read_text() == state):
        _package(state)
        _extract(module, program)
        stamp.write_text(state)
    return program


def _state() -> str:
    """What decides what is built: the sources, and the Java that makes the archive."""
    digest = hashlib.sha256(versions.remembered(_tools()["java"], table.find("java")).encode())
    sources = [LOCK, PROJECT / "pom.xml", *PROJECT.glob("*/pom.xml"), *PROJECT.glob("*/src/**/*")]
    for file in sorted(filter(Path.is_file, sources)):
        digest.update(str(file.relative_to(PROJECT)).encode() + file.read_bytes())
    return digest.hexdigest()


@functools.cache
def _package(_state: str) -> None:
    """Builds all modules at once."""
    log = cache.log("build-spring")
    log.unlink(missing_ok=True)
    argv = [_tools()["mvn"], "--batch-mode", "package"]
    with progress.step("build", "mvn package of loadtests/bench/peers/spring", log):
        command.run(
            argv, log, failure="spring: no build", cwd=PROJECT, env={"JAVA_HOME": str(_home())}
        )


def _extract(module: str, program: Path) -> None:
    """Extracts the jar, and records its classes when the program has started once."""
    log, folder = cache.log(f"build-spring-{module}"), program.parent
    log.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    java, jar = _tools()["java"], folder.parent / program.name
    failure = f"spring-{module}: the jar cannot be extracted"
    argv = [java, "-Djarmode=tools", "-jar", jar, "extract", "--destination", folder]
    command.run(argv, log, failure=failure)
    check_libraries(module, folder / "lib")
    argv = [*_java(program, 1), "-Dspring.context.exit=onRefresh", "-jar", program]
    # Instead of being read, the archive is written.
    argv = [str(word).replace("SharedArchiveFile", "ArchiveClassesAtExit") for word in argv]
    command.run(argv, log, failure=f"spring-{module}: no class-data archive")


def check_libraries(module: str, folder: Path) -> None:
    """Compares all libraries with the checksums that are locked."""
    pattern = rf"^(\w{{64}})  {module}/(\S+)$"
    locked = {name: digest for digest, name in re.findall(pattern, LOCK.read_text(), re.MULTILINE)}
    found = {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.glob("*.jar")
        if file.name != "common-1.jar"
    }
    if wrong := {name for name, _ in locked.items() ^ found.items()}:
        raise ToolError(f"spring-{module}: not as locked in {LOCK}: {', '.join(sorted(wrong))}")


def _java(program: Path, cpus: int) -> list[str]:
    return [
        str(_tools()["java"]),
        f"-XX:ActiveProcessorCount={cpus}",
        f"-Xmx{HEAP}",
        f"-XX:SharedArchiveFile={program.with_suffix('.jsa')}",
        "-Dspring.aot.enabled=true",
    ]


def _argv(program: Path, start: Start) -> list[str]:
    return [*_java(program, start.threads), "-jar", str(program), *start.arguments()]


def _installed(program: Path) -> Installed:
    """What only developers need of a JDK is not counted."""
    developers = {"ct.sym", "include", "jmods", "man", "src.zip"}
    home = [path for part in (_home(), _home() / "lib") for path in part.iterdir()]
    runtime = [path for path in home if path.name not in {*developers, "lib"}]
    return Installed(
        size_of([program.parent]), size_of(runtime), "extracted jar and class-data archive; JRE"
    )


def _version(program: Path) -> str:
    def library(name: str) -> str:
        pattern = re.compile(rf"{name}-(\d+(\.\d+)*)(\.\w+)?\.jar")
        return next(
            m[1]
            for file in (program.parent / "lib").iterdir()
            if (m := pattern.fullmatch(file.name))
        )

    java = versions.remembered(_tools()["java"], table.find("java"))
    tomcat = program.name.startswith("tomcat")
    server = (
        f"Tomcat {library('tomcat-embed-core')}" if tomcat else f"Netty {library('netty-common')}"
    )
    return f"{library('spring-boot')} ({server}, Java {java})"


def _contender(module: str, settings: str, *more: str) -> Contender:
    return Contender(
        name=f"spring-{module}",
        family="JVM",
        parts=COMPUTING | {*FILES, CORES, *more},
        settings=settings,
        build=functools.partial(_build, module),
        argv=_argv,
        installed=_installed,
        version=_version,
        warm_up=1.5,
        warm_up_first=40.0,
        compilers=COMPILERS,
    )


CONTENDERS = [_contender("tomcat", TOMCAT, CONNECTIONS), _contender("netty", NETTY)]
