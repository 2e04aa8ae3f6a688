"""A server of grpcio with reflection, without generated code. Prints its port, and serves until it is killed."""

import time
from concurrent import futures

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha import reflection

Field = descriptor_pb2.FieldDescriptorProto


def described():
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    order = file.message_type.add(name="Order")
    for number, (name, kind) in enumerate([("order_id", Field.TYPE_STRING), ("cents", Field.TYPE_INT64)], 1):
        order.field.add(name=name, number=number, type=kind, label=Field.LABEL_OPTIONAL)
    service = file.service.add(name="Orders")
    for name, client, server in [("Get", False, False), ("Watch", False, True), ("Put", True, False), ("Talk", True, True)]:
        service.method.add(
            name=name, input_type=".shop.Order", output_type=".shop.Order",
            client_streaming=client, server_streaming=server,
        )
    pool = descriptor_pool.Default()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


Order = described()


def get(order, context):
    if order.order_id == "missing":
        context.abort(grpc.StatusCode.NOT_FOUND, "no such order")
    if order.order_id == "slow":
        while context.is_active():
            time.sleep(0.05)
    context.set_trailing_metadata((("x-last", "one"),))
    return Order(order_id=order.order_id, cents=len(order.order_id))


def watch(order, _context):
    for cents in range(order.cents):
        yield Order(cents=cents)


def put(orders, _context):
    return Order(cents=sum(order.cents for order in orders))


def talk(orders, _context):
    yield from orders


def main():
    how = {"request_deserializer": Order.FromString, "response_serializer": Order.SerializeToString}
    server = grpc.server(futures.ThreadPoolExecutor(8), compression=grpc.Compression.Gzip)
    server.add_generic_rpc_handlers((
        grpc.method_handlers_generic_handler("shop.Orders", {
            "Get": grpc.unary_unary_rpc_method_handler(get, **how),
            "Watch": grpc.unary_stream_rpc_method_handler(watch, **how),
            "Put": grpc.stream_unary_rpc_method_handler(put, **how),
            "Talk": grpc.stream_stream_rpc_method_handler(talk, **how),
        }),
    ))
    reflection.enable_server_reflection(("shop.Orders", reflection.SERVICE_NAME), server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    server.start()
    server.wait_for_termination()


main()
