"""Who takes part: each module beside this one has a list `CONTENDERS`."""

import importlib
import pkgutil

from loadtests.bench.field.contender import Contender

ORDER = (
    *("floor", "corelane-server", "corelane-server, PGO", "hyper", "may_minihttp", "ntex"),
    *("actix-web", "axum", "go-net-http", "node-http", "http-server", "nginx", "apache"),
    *("spring-tomcat", "spring-netty", "cpp-pool"),
)
"""As the report lists them."""


def _collected() -> dict[str, Contender]:
    found: dict[str, Contender] = {}
    for module in sorted(info.name for info in pkgutil.iter_modules(__path__)):
        for contender in importlib.import_module(f"{__name__}.{module}").CONTENDERS:
            assert contender.name in ORDER, contender.name
            assert contender.name not in found, contender.name
            found[contender.name] = contender
    return {name: found[name] for name in ORDER if name in found}


CONTENDERS: dict[str, Contender] = _collected()
"""By name."""
