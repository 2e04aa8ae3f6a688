"""A real gRPC server and a real client (grpcio), without generated code: messages are bytes.

`calls.py serve [PORT]` prints its port and serves until it is killed; `calls.py call HOST:PORT` calls through
whatever is there, and fails if anything is not as the server says it.
"""

import sys
import threading
import time
from concurrent import futures

import grpc


class Calls(grpc.GenericRpcHandler):
    """Methods that do what they are called."""

    def service(self, details):
        name = details.method.rsplit("/", 1)[-1]
        if name in ("Unary", "Refuse", "Away", "Sleep"):
            return grpc.unary_unary_rpc_method_handler(getattr(self, name.lower()))
        if name == "Count":
            return grpc.unary_stream_rpc_method_handler(self.count)
        if name == "Sum":
            return grpc.stream_unary_rpc_method_handler(self.sum)
        if name == "Echo":
            return grpc.stream_stream_rpc_method_handler(self.echo)
        return None

    def unary(self, message, context):
        asked = dict(context.invocation_metadata()).get("x-asked", "")
        context.send_initial_metadata((("x-answered", asked),))
        context.set_trailing_metadata((("x-last", "one"), ("x-last-bin", b"\0\1")))
        return message

    def refuse(self, _message, context):
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "not now, später")

    def away(self, _message, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "away")

    def sleep(self, message, context):
        while context.is_active():
            time.sleep(0.05)
        return message

    def count(self, message, _context):
        for number in range(int(message)):
            yield number.to_bytes(4, "big") * 200

    def sum(self, messages, _context):
        return str(sum(int(message) for message in messages)).encode()

    def echo(self, messages, context):
        for message in messages:
            if message == b"break":
                context.abort(grpc.StatusCode.DATA_LOSS, "lost")
            yield message


def serve():
    server = grpc.server(futures.ThreadPoolExecutor(8))
    server.add_generic_rpc_handlers((Calls(),))
    port = sys.argv[2] if len(sys.argv) > 2 else "0"
    print(server.add_insecure_port(f"127.0.0.1:{port}"), flush=True)
    server.start()
    server.wait_for_termination()


def failing(call):
    try:
        call()
    except grpc.RpcError as error:
        return error
    raise AssertionError("it should fail")


def unary_calls(channel):
    unary = channel.unary_unary("/test.Calls/Unary")
    for length in (0, 1, 1000, 100_000, 3 << 20):
        message = b"x" * length
        answer, call = unary.with_call(message, metadata=(("x-asked", "me"),), timeout=20)
        assert answer == message, length
        assert dict(call.initial_metadata())["x-answered"] == "me"
        assert dict(call.trailing_metadata())["x-last"] == "one"
        assert dict(call.trailing_metadata())["x-last-bin"] == b"\0\1"
    error = failing(lambda: channel.unary_unary("/test.Calls/Refuse")(b"x", timeout=20))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION, error
    assert error.details() == "not now, später", error
    error = failing(lambda: channel.unary_unary("/test.Calls/Nothing")(b"x", timeout=20))
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED, error
    error = failing(lambda: channel.unary_unary("/test.Calls/Sleep")(b"x", timeout=0.3))
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED, error
    parallel = [unary.future(b"%d" % number, timeout=20) for number in range(300)]
    assert [one.result() for one in parallel] == [b"%d" % number for number in range(300)]


def streams(channel):
    numbers = list(channel.unary_stream("/test.Calls/Count")(b"1000", timeout=20))
    assert [int.from_bytes(one[:4], "big") for one in numbers] == list(range(1000))
    total = channel.stream_unary("/test.Calls/Sum")(iter([b"%d" % n for n in range(500)]), timeout=20)
    assert total == b"124750", total
    # Each message is sent only once the one before it has come back.
    turn = threading.Semaphore(1)

    def messages():
        for number in range(200):
            turn.acquire()
            yield b"%d" % number * (number + 1)

    back = []
    for message in channel.stream_stream("/test.Calls/Echo")(messages(), timeout=20):
        back.append(message)
        turn.release()
    assert back == [b"%d" % number * (number + 1) for number in range(200)]
    echoed = channel.stream_stream("/test.Calls/Echo")(iter([b"a", b"break", b"b"]), timeout=20)
    error = failing(lambda: list(echoed))
    assert error.code() is grpc.StatusCode.DATA_LOSS, error
    cancelled = channel.unary_stream("/test.Calls/Count")(b"1000000", timeout=20)
    next(iter(cancelled))
    cancelled.cancel()


def refused(channel):
    def error_of(path, message=b"x", **more):
        return failing(lambda: channel.unary_unary(path)(message, timeout=20, **more))

    for path, code in (
        ("/none/Method", grpc.StatusCode.UNIMPLEMENTED),
        ("/closed/Method", grpc.StatusCode.UNAUTHENTICATED),
        ("/down/Method", grpc.StatusCode.UNAVAILABLE),
    ):
        error = error_of(path)
        assert error.code() is code, error
        assert "weir-transaction-id" in dict(error.trailing_metadata()), error
    assert error_of("/closed/Method").details() == "A credential is required"
    assert channel.unary_unary("/scarce/0/Method")(b"x", timeout=20) == b"x"
    error = error_of("/scarce/0/Method")
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED, error
    assert int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]) > 1000, error


def main():
    if sys.argv[1] == "serve":
        serve()
    elif sys.argv[1] == "refused":
        with grpc.insecure_channel(sys.argv[2]) as channel:
            refused(channel)
    else:
        with grpc.insecure_channel(sys.argv[2]) as channel:
            unary_calls(channel)
            streams(channel)
        print("all as it should be")


if __name__ == "__main__":
    main()
