"""How each part was measured, in the words of the report."""

from loadtests.bench.field.report.rows import C10K, IDLE, MIXED, PROXIES, SIZE, WORKLOADS

WORDS = {
    "hello": "A fixed reply of 13 bytes as text.",
    "div": "Half of a decimal of any length, exact: routing, a parameter and a little arithmetic.",
    "file-4k": "A static file of 4,096 bytes, by what each recommends for files; the floor from memory.",
    "file-10k": "A static file of 10,831 bytes, the index page.",
    "work": "A loop of arithmetic that a compiler cannot remove: here the server hardly matters.",
    "projects": (
        "Documents of about 5 kB in PostgreSQL, loaded and saved by users that check every reply; at most 8 connections "
        "to the database. The database and the generator share the other CPU."
    ),
    MIXED: (
        "Open loop on one CPU: 90% `/hello` and 10% `/work` of 7 ms, so that a brief request may meet a dear one."
    ),
    IDLE: (
        "From the fork to the first right reply; the memory of all processes then, what they share counted once; and what 10,000 idle "
        "keep-alive connections add to it, each. Sockets in the kernel are not in it."
    ),
    SIZE: "What must be on disk to run it, without libc and the kernel.",
    C10K: (
        "`ab -n 13000 -c 10000` of the index page, each request on a connection of its own, as in the published test of "
        "C10k.jl, whose figures are of another machine. Where an accept queue was full, the kernel dropped handshakes, which come "
        "again a second later: ab ends before, with 13,000 replies, and counts none of these connections, while those that got in waited "
        "behind fewer. So whoever had more than a hundredth dropped has latencies that are not ranked."
    ),
    PROXIES: (
        "Each with one CPU in front of the same two replicas, which share the other CPU with the generator; `/hello`, as "
        "fast as it goes and at the rate of `hello`."
    ),
}


def of(record: dict, name: str) -> str:
    """What the workload is, and for how long it was sent."""
    seconds = record["plan"].get("seconds", {})
    closed, opened = (seconds.get(name, seconds.get(loop)) for loop in ("closed", "open"))
    if name not in WORKLOADS or closed is None or opened is None:
        return WORDS[name]
    return f"{WORDS[name]} {closed:g} s in a closed loop and {opened:g} s in an open one, in each round."


def first(record: dict) -> str:
    """How ranks are to be read."""
    rounds = record["plan"]["rounds"]
    chance = (
        f"Two equals agree in {rounds} rounds by chance once in {2 ** (rounds - 1)}; but the best of many equals is the luckiest of them, so "
        "*behind* takes as well that each round agrees beside whoever is the best other in the rounds that are left."
        if rounds > 1
        else "One round tells no more than a direction."
    )
    return (
        "Ranked by the median. *First* and *behind* are told where all rounds agree, *level* where they do "
        f"not. {chance} The ratio is Corelane's figure in that of the best "
        "other: below 1 is better, of requests/s above 1. The floor is no server, and a build with a profile has no "
        "counterpart among the peers, so neither is ranked."
    )
