"""A record of `bench field`, drawn from a seed: of the shape that the benchmark writes, with figures made up."""

import random

CPU_US = {
    "floor": 3.4,
    "corelane-server": 3.7,
    "corelane-server, PGO": 3.6,
    "hyper": 4.4,
    "may_minihttp": 3.72,
    "ntex": 5.3,
    "actix-web": 4.8,
    "axum": 4.9,
    "go-net-http": 11.0,
    "node-http": 27.0,
    "http-server": 140.0,
    "nginx": 4.3,
    "apache": 14.0,
    "spring-tomcat": 34.0,
    "spring-netty": 41.0,
    "cpp-pool": 7.0,
}
FAMILIES = {
    "floor": "floor",
    "go-net-http": "Go",
    "node-http": "Node",
    "http-server": "Node",
    "nginx": "web server",
    "apache": "web server",
    "spring-tomcat": "JVM",
    "spring-netty": "JVM",
    "cpp-pool": "thread pool",
    "corelane-server": "Corelane",
    "corelane-server, PGO": "Corelane",
}
FILES = ("http-server", "nginx", "apache")
"""Serve files alone."""

DEARER = {"hello": 1.0, "div": 1.03, "file-4k": 1.3, "file-10k": 1.9, "work": 9.0, "projects": 11.0}
DATABASE = ("corelane-server", "actix-web", "axum", "go-net-http", "node-http", "spring-tomcat")
GROWN = {
    "cores": (1, 2),
    "connections": (1, 8, 64, 512, 4096, 10_000),
    "routes": (10, 100, 1000, 10_000),
    "pods": (1, 4, 16, 64, 256),
}
PERCENTS = (*range(0, 100, 5), 97, 98, 99, 99.5, 99.8, 99.9, 99.95, 99.99, 100)


def record(seed: int = 1, rounds: int = 3) -> dict:
    """A record of all parts and contenders."""
    chance = random.Random(seed)
    names = list(CPU_US)
    return {
        "plan": {"rounds": rounds, "quick": False, "seconds": {"closed": 2.0, "open": 2.0}},
        "machine": {
            "date": "2026-01-01 00:00 UTC",
            "cpu": "made up",
            "cores": 2,
            "kernel": "Linux",
            "sources": "none",
        },
        "versions": {"rustc": "1.95.0"},
        "cpus": [0, 1],
        "load_average": {"before": [0.1, 0.2, 0.3], "after": [0.2, 0.2, 0.3]},
        "parts": {"hello": 300.0, "c10k": 90.0},
        "contenders": {name: _contender(name, chance) for name in names},
        "cells": {
            workload: {
                name: [_cell(chance, name, dearer, number) for number in range(1, rounds + 1)]
                for name in names
                if _takes(name, workload)
            }
            for workload, dearer in DEARER.items()
        },
        "mixed": {
            name: [_mixed(chance, name, number) for number in range(1, rounds + 1)]
            for name in names
            if _takes(name, "work") and name != "floor"
        },
        "idle": {
            name: [_idle(chance, name, number) for number in range(1, rounds + 1)] for name in names
        },
        "c10k": {
            name: [_c10k(chance, name, number) for number in range(1, rounds + 1)]
            for name in names
            if _takes(name, "file-10k")
        },
        "published": {
            "c10k": {
                "C10k.jl, published": {
                    "percentiles": [[50, 106], [99, 6681], [100, 6704]],
                    "requests_per_second": 1912,
                    "failed": 0,
                }
            }
        },
        "proxies": {
            name: [_proxy(chance, cost, number) for number in range(1, rounds + 1)]
            for name, cost in {"corelane-gateway": 27.0, "nginx": 8.0, "haproxy": 9.0}.items()
        },
        "scaling": {name: _growth(chance, rounds, name) for name in GROWN},
    }


def _takes(name: str, workload: str) -> bool:
    if workload == "projects":
        return name in DATABASE
    if name in FILES:
        return workload.startswith("file") or (workload == "hello" and name != "http-server")
    if workload == "div":
        return name != "floor"
    return name != "may_minihttp" or workload in ("hello", "work")


def _near(chance: random.Random, value: float, spread: float = 0.03) -> float:
    return value * chance.uniform(1 - spread, 1 + spread)


def _contender(name: str, chance: random.Random) -> dict:
    return {
        "family": FAMILIES.get(name, "Rust"),
        "settings": "its own defaults",
        "version": "1.0",
        "threads": 1,
        "workloads": [workload for workload in DEARER if _takes(name, workload)],
        "installed": {
            "program_bytes": int(_near(chance, 4e6, 0.8)),
            "runtime_bytes": 180_000_000 if name.startswith("spring") else 0,
            "what": "one program",
        },
    }


def _cell(chance: random.Random, name: str, dearer: float, number: int) -> dict:
    cpu = _near(chance, CPU_US[name] + 3.4 * (dearer - 1))
    requests = int(2e6 / cpu)
    curve = _curve(chance, cpu / 40)
    return {
        "round": number,
        "closed": {
            "requests": requests,
            "wrong": 0,
            "seconds": 2.0,
            "requests_per_second": requests / 2,
            "cpu_us": cpu,
            "busy": 0.95 if name == "floor" else 0.99,
            "generator_us": 3.8,
            "others_cores": 0.01,
        },
        "open": {
            "rate": 20_000,
            "requests": 40_000,
            "wrong": 0,
            "latency_ms": _named(curve),
            "percentiles": curve,
            "lag_us": 40,
            "busy": min(1.0, 0.02 * cpu),
        },
    }


def _curve(chance: random.Random, base: float) -> list[list[float]]:
    found, ms = [], base
    for percent in PERCENTS:
        ms *= 1 + chance.uniform(0, 0.05 if percent < 99 else 0.6)
        found.append([percent, ms])
    return found


def _named(curve: list[list[float]]) -> dict[str, float]:
    known = dict(map(tuple, curve))
    return {"p50": known[50], "p99": known[99], "p999": known[99.9], "max": known[100]}


def _mixed(chance: random.Random, name: str, number: int) -> dict:
    wait = 6.9 if name.startswith("corelane") else 14.0
    fast = {"p50": 0.1, "p99": _near(chance, wait), "p999": _near(chance, 1.4 * wait)}
    return {
        "round": number,
        "rate": 473,
        "fast": {**fast, "max": _near(chance, 2 * wait)},
        "slow": {"p50": 7.0, "p99": _near(chance, 20), "p999": _near(chance, 27), "max": 40.0},
        "busy": 0.33,
        "wrong": 0,
    }


def _idle(chance: random.Random, name: str, number: int) -> dict:
    return {
        "round": number,
        "start_ms": _near(chance, 40 * CPU_US[name] if "spring" in name else 2 * CPU_US[name]),
        "resident_kib": int(_near(chance, 1000 * CPU_US[name])),
        "kib_per_connection": _near(chance, 0.5 if name == "nginx" else 1.7 * CPU_US[name] ** 0.8),
        "connections": 10_000,
    }


def _c10k(chance: random.Random, name: str, number: int) -> dict:
    curve = _curve(chance, 90 + CPU_US[name])
    return {
        "round": number,
        "requests": 13_000,
        "failed": 0,
        "seconds": 1.0,
        "requests_per_second": 13_000 / _near(chance, 1.0),
        "percentiles": [point for point in curve if point[0] <= 99 or point[0] == 100],
    }


def _proxy(chance: random.Random, cost: float, number: int) -> dict:
    return {
        "round": number,
        "cpu_us": _near(chance, cost),
        "cpu_us_at_rate": _near(chance, 1.5 * cost),
        "requests_per_second": 1e6 / cost,
        "latency_ms": _named(_curve(chance, cost / 50)),
        "wrong": 0,
    }


def _growth(chance: random.Random, rounds: int, what: str) -> dict:
    sizes = GROWN[what]
    series = {
        name: [
            [size, [_near(chance, CPU_US[name] + 0.4 * index) for _ in range(rounds)]]
            for index, size in enumerate(sizes)
        ]
        for name in ("floor", "corelane-server", "hyper", "nginx", "go-net-http")
    }
    figure = {
        "key": "cpu_us",
        "title": "CPU per request",
        "unit": "µs",
        "x": what,
        "digits": 2,
        "log_x": True,
        "log_y": False,
        "series": series,
        "model": {
            name: {
                "text": "a + b log n",
                "points": [[size, CPU_US[name]] for size in (*sizes, 10 * sizes[-1])],
            }
            for name in series
        },
    }
    return {
        "about": f"The same load on more {what}.",
        "figures": [figure],
        "notes": [f"A note of {what}."],
        "wrong": 0,
    }
