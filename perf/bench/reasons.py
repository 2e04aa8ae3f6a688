"""Why bars are missed, by the title of the case; each is printed once in docs/performance.md.

Only what a profile or a measurement has shown stands here."""

_KERNEL = ("Of the CPU of a static response 77 % is in the kernel, 19 % in weir, 3 % in copies of libc; "
           "of nginx 83, 14 and 3 %. Without any work of its own weir would be at 0.76 of nginx: "
           "io_uring saves system calls, and spends 8 % in its own functions. What comes next are "
           "receives that stay armed (about 4 %).")
_EPOLL = ("As with nginx each request costs a receive, a send and a share of a wait; 77 % of the CPU is in "
          "the kernel, and weir spends 0.5 µs more than nginx of its own, for the record, limits, ids "
          "and statistics of a request.")
_PROXY = ("75 % of the CPU is in the kernel, 21 % in weir: routing, policies, the pool of connections and "
          "the record. " )
_LAB = ("85 % of the generator's CPU is in the kernel, which wrk spends there, too. It keeps a full histogram, "
        "checks each response and notes when requests were due.")
_NOISE = ("The bar lies within the spread of the rounds; other users of the machine decide on which "
          "side the median is.")
_THREADS = ("The threads that seal and index run on the same core as the worker; compression and "
            "analysis of the records are most of the cost.")

REASONS = {
    "hello (`reply`, 52 bytes)": _KERNEL,
    "hello, epoll": _EPOLL,
    "proxy GET small": _PROXY + _NOISE,
    "proxy GET small, epoll": _EPOLL,
    "proxy GET small with JWT, rate limit, metrics": _PROXY + "The policies cost 0.9 to 1.1 µs.",
    "proxy GET small, upstream at a Unix socket":
        "The socket saves the TCP of one side, a seventh; that of the client stays.",
    "proxy GET small, both at a Unix socket":
        "nginx saves the same at its own socket. What weir does for a request is the difference.",
    "proxy POST 1 KiB": _PROXY,
    "proxy POST 1 KiB with JWT, rate limit, metrics": _PROXY + "The policies cost 1.3 to 1.4 µs.",
    "TLS and JWT, POST 1 KiB": "70 % of the CPU is in the kernel, and encryption costs both sides the same. "
                               + _NOISE,
    "proxy POST 100 KiB": "weir passes parts on as they arrive, in less than half of nginx's p99: at a fixed "
                          "rate these are more and smaller calls. " + _NOISE,
    "hello as a script": "The script engine takes 2.5 to 3 µs of a call. Half of the cost of the "
                         "script is the conversion of its result to JSON.",
    "JSON map in a script, 1 KiB": "Of 45 µs in the script engine, `fetch` and its promises are 16, "
                                   "printing JSON 12, parsing JSON 7. A declared map needs no "
                                   "script.",
    "1000 routes of an OpenAPI document, every policy":
        "Verifying a token and its claims, two limits, validation against the document and the metrics of "
        "1000 routes cost 5.3 to 5.8 µs in all.",
    "CGI, PHP, mod_cgid beside it": f"The PHP process itself is nearly all of the cost. {_NOISE}",
    "a message of a WebSocket and its echo": _NOISE,
    "Lab: closed HTTP/1.1, full histogram": _LAB,
    "Lab: open model, 1 ms quantum": "Each request is due at its own time: a turn sends few requests.",
    "Lab: closed, TLS 1.3": _LAB,
    "a unary gRPC call to grpcio": "The upstream is slow, so that weir sleeps after each call and "
                                   "continues with cold caches.",
    **{f"burst of `ab -k -n 20000 -c 150`, {what}": _THREADS
       for what in ("`index: keys`", "`index: payload`", "Tracker on", "Tracker and Monitor on")},
    **{f"p99 at half load, {what}": _THREADS + " The delay is 0.1 to 0.4 ms at this load, 1 to 2 ms for the echo."
       for what in ("hello, `index: keys`", "hello, `index: payload`", "1 KiB echo, `index: keys`",
                    "1 KiB echo, `index: payload`")},
    **{f"sustained, backlog charged, {what}": _THREADS + " Words of a 1 KiB echo cost 13 µs, the proxying 20: "
       "a full text index of everything cannot reach this bar on these cores."
       for what in ("hello, `index: payload`", "1 KiB echo, `index: payload`")},
    "disk of a sealed 1 KiB echo, `index: payload`":
        "The filters of word pairs are 60 bytes of it: the price of phrases within 0.5 s over five million.",
}
