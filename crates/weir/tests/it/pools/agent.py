# An agent with good and bad manners, over FastCGI or HTTP/1.1: `agent.py fastcgi|http [socket]`.
# The listening socket is standard input unless a path is given. The path of a request says how it
# is answered; see `act`.
import os, signal, socket, struct, sys, time

FASTCGI = sys.argv[1] == "fastcgi"
if len(sys.argv) > 2:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(sys.argv[2])
    listener.listen(16)
else:
    listener = socket.socket(fileno=0)
served = 0


class Gone(Exception):
    pass


class FastCgi:
    def __init__(self, connection):
        self.connection = connection
        self.bytes = b""

    def exactly(self, count):
        while len(self.bytes) < count:
            more = self.connection.recv(65536)
            if not more:
                raise Gone()
            self.bytes += more
        taken, self.bytes = self.bytes[:count], self.bytes[count:]
        return taken

    def record(self):
        version, kind, request, length, padding = struct.unpack(">BBHHBx", self.exactly(8))
        content = self.exactly(length)
        self.exactly(padding)
        return kind, content

    def request(self):
        params, body = b"", b""
        while True:
            kind, content = self.record()
            if kind == 9:
                self.send(10, b"\x0f\x01FCGI_MPXS_CONNS0", request=0)
            elif kind == 4:
                params += content
            elif kind == 2:
                raise Gone()
            elif kind == 5 and content:
                body += content
            elif kind == 5:
                return pairs(params), body

    def send(self, kind, content, request=1):
        for at in range(0, max(len(content), 1), 65535):
            piece = content[at : at + 65535]
            self.connection.sendall(struct.pack(">BBHHBB", 1, kind, request, len(piece), 0, 0) + piece)

    def head(self, status, length):
        self.send(6, b"Status: %d\r\nContent-Type: text/plain\r\n%s\r\n" % (
            status, b"" if length is None else b"Content-Length: %d\r\n" % length))

    def data(self, data):
        self.send(6, data)

    def log(self, text):
        self.send(7, text)

    def end(self):
        self.send(6, b"")
        self.send(3, b"\0" * 8)


def pairs(params):
    found, at = {}, 0
    while at < len(params):
        lengths = []
        for _ in range(2):
            if params[at] < 128:
                lengths.append(params[at])
                at += 1
            else:
                lengths.append(struct.unpack(">I", params[at : at + 4])[0] & 0x7FFFFFFF)
                at += 4
        name = params[at : at + lengths[0]].decode()
        at += lengths[0]
        found[name] = params[at : at + lengths[1]].decode("utf-8", "replace")
        at += lengths[1]
    return found


class Http:
    def __init__(self, connection):
        self.file = connection.makefile("rwb")

    def request(self):
        line = self.file.readline()
        if not line:
            raise Gone()
        method, target, _ = line.decode().split()
        variables = {"REQUEST_METHOD": method, "REQUEST_URI": target}
        while True:
            line = self.file.readline().strip()
            if not line:
                break
            name, value = line.decode("latin-1").split(":", 1)
            variables["HTTP_" + name.upper()] = value.strip()
        body = b""
        if "HTTP_CONTENT-LENGTH" in variables:
            body = self.file.read(int(variables["HTTP_CONTENT-LENGTH"]))
        elif variables.get("HTTP_TRANSFER-ENCODING") == "chunked":
            while True:
                size = int(self.file.readline(), 16)
                body += self.file.read(size)
                self.file.readline()
                if size == 0:
                    break
        if method == "OPTIONS":
            self.head(204, None)
            self.file.flush()
            return self.request()
        return variables, body

    def head(self, status, length):
        self.chunked = length is None and status != 204
        framing = b"" if status == 204 else b"transfer-encoding: chunked\r\n" if self.chunked else b"content-length: %d\r\n" % length
        self.file.write(b"HTTP/1.1 %d x\r\ncontent-type: text/plain\r\n%s\r\n" % (status, framing))
        self.file.flush()

    def data(self, data):
        self.file.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)
        self.file.flush()

    def log(self, text):
        os.write(2, text)

    def end(self):
        if self.chunked:
            self.file.write(b"0\r\n\r\n")
        self.file.flush()


def act(peer, raw, variables, body):
    path, _, query = variables["REQUEST_URI"].partition("?")
    what = path.rsplit("/", 1)[-1]
    if what == "crash":
        os._exit(3)
    elif what == "abort":
        os.kill(os.getpid(), signal.SIGABRT)
    elif what == "hang":
        time.sleep(600)
    elif what == "garbage":
        raw.sendall(b"what is this?\n" * 10)
        time.sleep(600)
    elif what == "nohead":
        peer.data(b"no head at all\n\n")
        peer.end()
    elif what == "early":
        peer.head(200, 1000)
        peer.data(b"x" * 10)
        raise Gone()
    elif what == "stall":
        peer.head(200, None)
        peer.data(b"first\n")
        time.sleep(600)
    elif what == "fork":
        if os.fork() == 0:
            os.close(0)
            time.sleep(600)
            os._exit(0)
        say(peer, "forked")
    elif what == "flood":
        for at in range(20000):
            os.write(2, b"flood %d\n" % at)
        say(peer, "flooded")
    elif what == "log":
        peer.log(b"a line for the log\n")
        say(peer, "logged")
    elif what == "leak":
        global kept
        kept = b"x" * (64 << 20)
        say(peer, "leaked")
    elif what == "sleep":
        time.sleep(float(query) / 1000)
        say(peer, "slept %d" % os.getpid())
    elif what == "gate":
        # Until the test says so.
        while not os.path.exists("open"):
            time.sleep(0.01)
        say(peer, "passed")
    elif what == "big":
        peer.head(200, None)
        for _ in range(int(query)):
            peer.data(b"0123456789abcdef" * 4096)
        peer.end()
    elif what == "pid":
        say(peer, str(os.getpid()))
    elif what == "env":
        say(peer, "\n".join("%s=%s" % pair for pair in sorted(os.environ.items())))
    elif what == "limits":
        import resource
        say(peer, "%s %s" % (resource.getrlimit(resource.RLIMIT_NOFILE), resource.getrlimit(resource.RLIMIT_CPU)))
    elif what == "descriptors":
        open_ = [n for n in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + n)]
        say(peer, " ".join(sorted(os.readlink("/proc/self/fd/" + n).split(":")[0] for n in open_)))
    elif what == "variables":
        say(peer, "\n".join("%s=%s" % pair for pair in sorted(variables.items())))
    else:
        say(peer, "%s %d %d" % (variables["REQUEST_METHOD"], len(body), served))


def say(peer, text):
    data = text.encode()
    peer.head(200, len(data))
    peer.data(data)
    peer.end()


if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.environ.get("FAILS"):
    sys.exit("this program cannot start")
while True:
    connection, _ = listener.accept()
    try:
        peer = FastCgi(connection) if FASTCGI else Http(connection)
        while True:
            variables, body = peer.request()
            served += 1
            act(peer, connection, variables, body)
    except (Gone, OSError, ValueError):
        pass
    try:
        # Files made of it would keep it open.
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
