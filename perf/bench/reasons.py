"""Why bars are missed, by the title of the case; each is printed once in docs/performance.md.

Only what a profile or a measurement has shown stands here."""

_KERNEL = ("67 to 87 % of the time is in the kernel, and weir makes as many system calls per "
           "request as nginx. The next step is fewer system calls (io_uring).")
_NOISE = ("The bar lies within the spread of the rounds; other users of the machine decide on which "
          "side the median is.")
_THREADS = ("The threads that seal and index run on the same core as the worker; compression and "
            "analysis of the records are most of the cost.")

REASONS = {
    "hello (`reply`, 52 bytes)": _KERNEL,
    "proxy GET small": _KERNEL,
    "proxy GET small with JWT, rate limit, metrics": _KERNEL,
    "proxy POST 1 KiB": _KERNEL,
    "hello as a script": "The script engine takes 2.5 to 3 µs of a call. Half of the cost of the "
                         "script is the conversion of its result to JSON.",
    "JSON map in a script, 1 KiB": "Of 45 µs in the script engine, `fetch` and its promises are 16, "
                                   "printing JSON 12, parsing JSON 7. A declared map needs no "
                                   "script.",
    "1000 routes of an OpenAPI document, every policy":
        "All policies together are a third of the request, and their code exceeds the instruction "
        "cache of the core.",
    "CGI, PHP, mod_cgid beside it": f"The PHP process itself is nearly all of the cost. {_NOISE}",
    "a message of a WebSocket and its echo": _NOISE,
    "a unary gRPC call to grpcio": "The upstream is slow, so that weir sleeps after each call and "
                                   "continues with cold caches.",
    "search by key": "Each block of 64 transactions that contains the key is read and decoded.",
    "search by rare word": "Each block of 64 transactions that contains the word is read.",
    "recording, all threads, hello, `index: keys`": _THREADS,
    "recording, all threads, 1 KiB echo, `index: keys`": _THREADS,
    **{f"recording, workers alone, {traffic}, `index: keys`":
       "A worker does the same with `index: payload`, which meets this bar in the same run. " + _NOISE
       for traffic in ("hello", "1 KiB echo")},
    **{f"burst of `ab -k -n 20000 -c 150`, {what}": _THREADS
       for what in ("`index: keys`", "`index: payload`", "Tracker on", "Tracker and Monitor on")},
    "p99 at half load, 1 KiB echo, `index: payload`": _THREADS,
}
