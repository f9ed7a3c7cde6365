"""How it is measured, in words."""

from loadtests.bench.threads import offline, published
from loadtests.bench.threads.backlog import LINEAR, SHORT
from loadtests.bench.threads.shapes import BACKLOG

PUBLISHED = (
    f"From {published.SOURCE}: time of a request of 5 million iterations. In a closed loop the time of a "
    "request is that of everyone before it, so time ÷ connections is what the server takes for one (Little's "
    "law): those columns are computed here. The times with many threads agree with 5.9 ms for one request, "
    "divided by the threads; what differs is one thread's own time, which grows from 5.9 to 12.6 ms where a "
    "closed loop of 1,000 connections never lets more than 1,000 wait. Tiny work took "
    f"{published.TINY_ONE_MS} ms with one thread and {published.TINY_SIXTEEN_MS} with sixteen. The source tells "
    "neither the spread nor the CPU time."
)

MATRIX = (
    "Closed loop: so many connections at once, each with one request; whoever is answered is replaced by a new "
    "connection. Times the requests per second of one thread, which accepts, computes and answers."
)

COST = (
    "Median of the server's CPU time of a request in µs / the cores that it had. A speed-up is the ratio of the "
    "cores times the ratio of the costs: caches can change nothing but the cost."
)

QUEUE = (
    "The pool's queue and one worker without sockets: it takes a request from the front, reads a byte of each line that it holds and "
    "puts it at the end, so the queue stays as long as it is; no iterations. What it holds lies in memory in an "
    f"order by chance. Misses by cachegrind with a D1 of {offline.D1} and a last level of {offline.LL} (bytes, "
    "ways, line: only as much as a core's own second level), as the difference of two runs, one with twice the "
    "requests."
)

OFFLINE = f"The same with {offline.COMPUTING:,} iterations for each request, descriptors alone, and more workers."

ONE_CPU = (
    "The server has one CPU, the generator the other. More threads get no more CPU here, so whatever they gained "
    "would come from the queue or the cache."
)

BACKLOG = (
    f"Everyone comes in the same moment, once; the accept queue is {BACKLOG:,} or {SHORT} long. Whom it has no room "
    f"for, the kernel does not hear: the client sends its SYN again after a second. `{LINEAR}` of this kernel "
    "leaves a second between the first SYNs; before Linux 6.5 they came after 1, 3, 7 and 15 s (RFC 6298). One "
    "thread alone accepts nobody while it computes; the pool's accept loop always does. Server and clients are in "
    "two network namespaces, which the kernel counts for."
)

COMPANY = (
    "20 connections, 1 million iterations, and two programs that only compute, in the same session. The scheduler "
    "shares the CPUs among threads: one thread beside two programs gets a share of one, sixteen get nearly all."
)

REUSE = (
    "100 connections. Lanes only: a worker of the pool belongs to its connection, so with connections that stay "
    "open it would need a thread for each."
)


def common(record: dict) -> str:
    """What all parts share."""
    length = record["plan"]["length"]
    return (
        "`one thread` and `pool of N` are `loadtests/bench/peers/pool`: blocking sockets, a queue behind a mutex and "
        "a condition variable, N workers beside the thread that accepts; one request for each connection. Lanes are "
        "corelane-server, not pinned. Both compute the same steps of a generator of random numbers, each of which "
        "needs the one before it, and every answer is compared with the right result. The server and the load "
        f"generator (one thread) share all {len(record['cpus'])} CPUs, as in the original, unless a part says "
        "otherwise; all are of one session, so the scheduler shares among threads "
        f"(`sched_autogroup_enabled` is {record['autogroup']}).\n\n"
        f"A cell is measured for {length['brief']} s, with 1 million iterations for {length['dear']} s, with more for "
        f"{length['dearest']} s, after {length['warm_up']} s of the same load, from one answer to another; the server "
        "is started anew for each. It has few requests where they are dear: the record has their number. CPU time of "
        "a request is the CPU time of the measured part ÷ its seconds ÷ requests per second. Each round measures "
        "everything once, in another order."
    )
