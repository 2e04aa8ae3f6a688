"""What is compared: cases, contenders, loads, and the bars that weir must reach."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB

#: Tokens sent in turn where a case needs tokens; all are cached after the first round.
CACHED_TOKENS = 100
#: Distinct tokens of the cold case; as many as WSO2's published method cycles through.
COLD_TOKENS = 4000


@dataclass(frozen=True)
class Load:
    """How requests come."""

    name: str
    title: str
    connections: int = 100
    workers: int = 1
    #: Server on core 0, load and upstream on core 1; else everything everywhere.
    pinned: bool = True
    #: At half of the slowest contender's saturated rate instead of as fast as answers return.
    fixed_rate: bool = False


SATURATED = Load("saturated", "100 connections, saturated")
FIXED = Load("fixed", "100 connections, fixed rate", fixed_rate=True)
THOUSAND = Load("thousand", "1000 connections, saturated", connections=1000)
FEW = Load("few", "8 connections, saturated", connections=8)
TWO = Load("two", "two workers, unpinned, 100 connections", workers=2, pinned=False)

#: The fixed rate needs the saturated one before it; unpinned servers are started anew.
ALL_LOADS = (SATURATED, FIXED, THOUSAND, TWO)
#: What they are called.
TITLES = {load.name: load.title for load in (*ALL_LOADS, FEW)}
#: The bars hold "at both loads", or at the only one.
BOTH = ("saturated", "fixed", "few")


@dataclass(frozen=True)
class Contender:
    """One server in one role."""

    name: str
    server: str
    role: str = "proxy"
    path: str = "/open/small"
    token: bool = False
    #: What it accepts as Content-Encoding, if anything.
    accept: str | None = None


@dataclass(frozen=True)
class Bar:
    """The median over rounds of subject ÷ reference, `cpu` per request, `rate` or `p99`; or of
    subject − reference in µs of CPU per request, `above`."""

    title: str
    subject: str
    reference: str
    bound: float
    figure: str = "cpu"
    loads: tuple[str, ...] = BOTH
    #: Bounds of loads that have another one.
    others: tuple[tuple[str, float], ...] = ()

    def bound_at(self, load: str) -> float:
        return dict(self.others).get(load, self.bound)

    def met(self, ratio: float, load: str) -> bool:
        bound = self.bound_at(load)
        return ratio >= bound if self.figure == "rate" else ratio <= bound

    def text(self, load: str) -> str:
        bound = self.bound_at(load)
        if self.figure == "above":
            return f"≤ {self.reference} + {bound:.0f} µs"
        sign = "≥" if self.figure == "rate" else "≤"
        return f"{sign} {bound:.2f} × {self.reference}"


@dataclass(frozen=True)
class Case:
    """Contenders under the same load, with the same upstream process."""

    name: str
    contenders: tuple[Contender, ...]
    bars: tuple[Bar, ...]
    #: `small` (nginx, 52 bytes), `echo` (weir echo), `php` (php-fpm), or none.
    upstream: str | None = None
    #: Bytes of the request body; none for GET.
    body: int | None = None
    #: The body is an object of twenty members instead of WSO2's payload.
    record: bool = False
    loads: tuple[Load, ...] = ALL_LOADS
    #: CPU is that of the whole machine without the load: programs that end with their request
    #: cannot be asked afterwards.
    whole: bool = False


def _echo(name: str, body: int, contenders: tuple[Contender, ...], bars: tuple[Bar, ...],
          loads: tuple[Load, ...] = ALL_LOADS) -> Case:
    return Case(name, contenders, bars, upstream="echo", body=body, loads=loads)


def _files() -> Case:
    """OpenEdge's static file, plain and compressed. nginx both as it comes, opening the file for
    each request, and with what it found remembered for as long as weir does."""
    contenders = (
        Contender("weir", "weir", "files", "/static/grid.json"),
        Contender("weir gzip sibling", "weir", "files", "/static/grid.json", accept="gzip"),
        Contender("weir gzip made", "weir", "files", "/packed/grid.json", accept="gzip"),
        Contender("nginx", "nginx", "files", "/grid.json"),
        Contender("nginx gzip sibling", "nginx", "files", "/grid.json", accept="gzip"),
        Contender("nginx cached", "nginx", "files_cached", "/grid.json"),
        Contender("nginx cached gzip sibling", "nginx", "files_cached", "/grid.json",
                  accept="gzip"))
    bars = (Bar("static file, 4,481 bytes", "weir", "nginx", 1.0),
            Bar("static file, open_file_cache", "weir", "nginx cached", 1.0),
            Bar("precompressed gzip", "weir gzip sibling", "nginx gzip sibling", 1.0),
            Bar("precompressed gzip, open_file_cache", "weir gzip sibling",
                "nginx cached gzip sibling", 1.0),
            Bar("gzip made by weir and kept / plain", "weir gzip made", "weir", 1.2))
    return Case("files", contenders, bars, loads=(SATURATED, FIXED, TWO))


def _fastcgi() -> Case:
    """The front end alone, the same script behind it in as many processes."""
    contenders = (Contender("weir", "weir pools", "pools", "/fpm"),
                  Contender("nginx", "nginx", "fastcgi", "/"))
    bars = (Bar("FastCGI with php-fpm", "weir", "nginx", 0.9),
            Bar("FastCGI with php-fpm, p99", "weir", "nginx", 1.0, figure="p99"))
    return Case("fastcgi", contenders, bars, upstream="php", loads=(SATURATED, FIXED))


def _cgi() -> Case:
    """A process for each request, everything it costs; and the same PHP program in agents."""
    contenders = (Contender("weir", "weir pools", "pools", "/cgi/hello.cgi"),
                  Contender("apache", "apache", "cgi", "/cgi/hello.cgi"),
                  Contender("weir PHP", "weir pools", "pools", "/cgi/php.cgi"),
                  Contender("apache PHP", "apache", "cgi", "/cgi/php.cgi"),
                  Contender("weir PHP FastCGI", "weir pools", "pools", "/fastcgi"))
    bars = (Bar("CGI, a shell script, mod_cgid beside it", "weir", "apache", 1.0),
            Bar("CGI, PHP, mod_cgid beside it", "weir PHP", "apache PHP", 1.0),
            Bar("PHP by FastCGI instead of CGI", "weir PHP FastCGI", "weir PHP", 1.0, loads=()))
    return Case("cgi", contenders, bars, loads=(FEW,), whole=True)


def _mediation(name: str, body: int, bound: float) -> Case:
    contenders = (Contender("weir echo", "weir", path="/open/echo"),
                  Contender("weir mediation", "weir", path="/open/mediate"))
    bar = Bar(f"Mediation / Echo, {body // KIB} KiB, throughput", "weir mediation", "weir echo",
              bound, figure="rate", loads=("saturated",))
    return _echo(name, body, contenders, (bar,), loads=(SATURATED,))


CASES = (
    Case("hello",
         (Contender("weir", "weir", "hello", "/open/hello"),
          Contender("weir epoll", "weir epoll", "hello", "/open/hello"),
          Contender("nginx", "nginx", "hello", "/open/hello"),
          Contender("haproxy", "haproxy", "hello", "/open/hello")),
         (Bar("hello (`reply`, 52 bytes)", "weir", "nginx", 0.80, others=(("fixed", 0.85),)),
          Bar("hello, epoll", "weir epoll", "nginx", 0.92))),
    Case("get",
         (Contender("weir", "weir"),
          Contender("weir epoll", "weir epoll"),
          Contender("weir guarded", "weir", path="/guarded/small", token=True),
          Contender("nginx", "nginx"),
          Contender("haproxy", "haproxy")),
         (Bar("proxy GET small", "weir", "nginx", 0.80, loads=(*BOTH, "thousand"),
              others=(("saturated", 0.75),)),
          Bar("proxy GET small, p99", "weir", "nginx", 1.0, figure="p99", loads=("fixed",)),
          Bar("proxy GET small, epoll", "weir epoll", "nginx", 0.88),
          Bar("proxy GET small with JWT, rate limit, metrics", "weir guarded", "nginx", 0.80)),
         upstream="small"),
    Case("get-socket",
         (Contender("weir socket", "weir", path="/socket/small"),
          Contender("weir", "weir"),
          Contender("nginx socket", "nginx", path="/socket/small"),
          Contender("nginx", "nginx")),
         (Bar("proxy GET small, upstream at a Unix socket", "weir socket", "nginx", 0.65),
          Bar("proxy GET small, both at a Unix socket", "weir socket", "nginx socket", 0.75)),
         upstream="small", loads=(SATURATED, FIXED)),
    _echo("post-1k", KIB,
          (Contender("weir", "weir", path="/open/echo"),
           Contender("weir epoll", "weir epoll", path="/open/echo"),
           Contender("weir guarded", "weir", path="/guarded/echo", token=True),
           Contender("nginx", "nginx", path="/open/echo"),
           Contender("haproxy", "haproxy", path="/open/echo")),
          (Bar("proxy POST 1 KiB", "weir", "nginx", 0.70),
           Bar("proxy POST 1 KiB with JWT, rate limit, metrics", "weir guarded", "nginx", 0.80))),
    _echo("tls", KIB,
          (Contender("weir guarded", "weir", "tls", "/guarded/echo", token=True),
           Contender("weir epoll guarded", "weir epoll", "tls", "/guarded/echo", token=True),
           Contender("nginx", "nginx", "tls", "/open/echo"),
           Contender("haproxy", "haproxy", "tls", "/open/echo")),
          (Bar("TLS and JWT, POST 1 KiB", "weir guarded", "nginx", 0.80),),
          loads=(SATURATED, FIXED, TWO)),
    _echo("post-100k", 100 * KIB,
          (Contender("weir", "weir", path="/open/echo"),
           Contender("weir epoll", "weir epoll", path="/open/echo"),
           Contender("nginx unbuffered", "nginx", "unbuffered", "/open/echo"),
           Contender("nginx", "nginx", "buffered", "/open/echo"),
           Contender("haproxy", "haproxy", path="/open/echo")),
          (Bar("proxy POST 100 KiB", "weir", "nginx unbuffered", 0.90, loads=(*BOTH, "two")),)),
    _files(),
    _mediation("mediation-1k", KIB, 0.85),
    _mediation("mediation-100k", 100 * KIB, 0.6),
    Case("scripts",
         (Contender("weir reply", "weir", "hello", "/open/hello"),
          Contender("weir script", "weir", "hello", "/open/script")),
         (Bar("hello as a script", "weir script", "weir reply", 1.35),),
         loads=(SATURATED, FIXED)),
    _echo("scripts-map", KIB,
          (Contender("weir echo", "weir", path="/open/echo"),
           Contender("weir mediation", "weir", path="/open/mediate"),
           Contender("weir script", "weir", path="/open/script-map"),
           Contender("weir script fetching", "weir", path="/open/script-fetch")),
          (Bar("JSON map in a script, 1 KiB", "weir script", "weir echo", 40, figure="above"),),
          loads=(SATURATED, FIXED)),
    Case("validation",
         (Contender("weir echo", "weir", path="/open/echo"),
          Contender("weir validated", "weir", path="/described/records")),
         (Bar("1 KiB against a schema of 20 properties", "weir validated", "weir echo", 6,
              figure="above"),),
         upstream="echo", body=KIB, record=True, loads=(SATURATED, FIXED)),
    Case("routes-1000",
         (Contender("weir echo", "weir", path="/open/echo"),
          Contender("weir 1000 routes", "weir thousand", path="/thousand/record-777", token=True)),
         (Bar("1000 routes of an OpenAPI document, every policy", "weir 1000 routes", "weir echo",
              1.25),),
         upstream="echo", body=KIB, record=True, loads=(SATURATED, FIXED)),
    _fastcgi(),
    _cgi(),
)

#: Cases that are no rounds of load, and what they must stay under.
COLD = "cold-token"
MEMORY = "memory"
START = "start"
IDLE_CONNECTIONS = 10_000
MEMORY_IDLE_LIMIT = 25 * MIB
MEMORY_CONNECTIONS_LIMIT = 100 * MIB
START_LIMIT_SECONDS = 0.1

#: Memory of weir for each agent that has a connection.
POOL_MEMORY = "pool-memory"
POOL_MEMORY_LIMIT = 64 * KIB

#: Memory of weir for each engine of scripts that has served.
SCRIPT_MEMORY = "script-memory"
SCRIPT_MEMORY_LIMIT = 3 * MIB

#: What recording costs, against weir itself with recording off.
RECORDING_COST = "recording-cost"
RECORDING_BURST = "recording-burst"
RECORDING_P99 = "recording-p99"
RECORDING_SUSTAINED = "recording-sustained"
RECORDING_SEARCH = "recording-search"
RECORDING_MEMORY = "recording-memory"
#: What counting costs, against weir itself that counts nothing.
MONITOR_COST = "monitor-cost"
TRACKER_MONITOR = "tracker-monitor"
MONITOR_USAGE = "monitor-usage"
#: What a fleet costs a node, against the same weir alone.
FLEET_COST = "fleet-cost"
#: Searches over the nodes of a fleet, against those in each node.
FLEET_SEARCH = "fleet-search"
#: Messages of WebSockets, and what open ones hold.
WEBSOCKET = "websocket"
WEBSOCKET_LIMIT = 200 * MIB
#: Unary calls of gRPC; retries with a target that fails.
GRPC = "grpc"
RETRIES = "retries"
RETRIES_SUCCESS = 0.999
RETRIES_TRIES = 1.2
#: Bulk resubmission.
RESUBMISSION = "resubmission"
#: What a request costs the Lab, beside other load generators.
LAB_CLOSED = "lab-closed"
LAB_ROWS = "lab-rows"
LAB_OPEN = "lab-open"
LAB_TLS = "lab-tls"
LAB_HTTP2 = "lab-http2"
LAB_USERS = "lab-users"
LAB = (LAB_CLOSED, LAB_ROWS, LAB_OPEN, LAB_TLS, LAB_HTTP2)
#: Run only when named, or with `--long`.
LONG = (RECORDING_SEARCH, RECORDING_MEMORY, MONITOR_USAGE, FLEET_COST, FLEET_SEARCH, RESUBMISSION,
        GRPC)

NAMES = (*(case.name for case in CASES), COLD, MEMORY, START, POOL_MEMORY, SCRIPT_MEMORY,
         RECORDING_COST, RECORDING_BURST, RECORDING_P99, RECORDING_SUSTAINED, MONITOR_COST,
         TRACKER_MONITOR, WEBSOCKET, RETRIES, *LAB, LAB_USERS, *LONG)
