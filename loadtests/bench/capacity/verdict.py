"""How far predictions are off, and whether that is within the targets."""

from statistics import median

KNEE = 0.10
P99 = 0.20
"""The targets: the most that a prediction may be off, as a share of what was measured."""

USED = 0.7
"""The share of the predicted knee at which the p99 is judged."""

TARGETS = {"knee": KNEE, "p99": P99}


def errors(samples: list[dict], figure: str) -> list[float]:
    """Predicted ÷ measured - 1, of each round."""
    return [sample[figure]["predicted"] / sample[figure]["measured"] - 1 for sample in samples]


def error(samples: list[dict], figure: str) -> float:
    """The median over rounds."""
    return median(errors(samples, figure))


def met(samples: list[dict], figure: str) -> bool:
    """Whether the target of a figure is met."""
    return abs(error(samples, figure)) <= TARGETS[figure]


def reasons(samples: list[dict]) -> list[str]:
    """What the measurement itself shows of why a target is missed."""

    def typical(name: str) -> float:
        return median(sample[name] for sample in samples)

    found = []
    if (stolen := typical("others_cores") + typical("stolen_cores")) >= 0.05:
        found.append(f"other processes and the hypervisor took {stolen:.2f} cores")
    if (taken := typical("generator_cores")) >= 0.5:
        found.append(f"the generator kept {taken:.0%} of its CPU busy")
    if (lag := typical("lag_p99_ms")) >= 0.1 * (p99 := typical("p99_ms")):
        found.append(f"the generator itself was late by {lag:.2f} ms in its p99 of {p99:.2f} ms")
    if (full := typical("busy_at_knee")) < 0.9:
        found.append(f"the lanes were busy for {full:.0%} of the time at the knee: not their limit")
    changes = {
        "handlers held their lane at the knee": ("handler_at_knee", "handler_at_low"),
        "requests kept their slot at the rate": ("service_at_rate", "service_at_low"),
    }
    for what, (now, then) in changes.items():
        if abs(change := typical(now) / max(typical(then), 1e-9) - 1) >= 0.05:
            found.append(f"{what} for {1 + change:.0%} of the time that they did at the low load")
    spread = [sample["p99"]["measured"] for sample in samples]
    if max(spread) >= 1.3 * min(spread):
        found.append(
            f"the measured p99 itself lay between {min(spread):.2f} and {max(spread):.2f} ms"
        )
    return found
