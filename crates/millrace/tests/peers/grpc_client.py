"""An ordinary grpcio client, with stubs by grpc_tools, against a fabric service behind the gateway.

Usage: grpc_client.py ADDRESS PROTO-FOLDER STUB-FOLDER [AUTHORITY], with TLS if an authority is named
"""

import os
import sys
import threading

import grpc
import grpc_tools
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase as ReflectionDatabase,
)
from grpc_tools import protoc

address, protos, stubs, *authority = sys.argv[1:]
# Where methods say what they are, stock protoc needs the file that `millrace rpc options` prints; it is among the stubs.
files = ["demo.proto", "millrace/options.proto"]
of_protobuf = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
arguments = ["protoc", f"-I{protos}", f"-I{stubs}", f"-I{of_protobuf}", f"--python_out={stubs}", f"--grpc_python_out={stubs}", *files]
assert protoc.main(arguments) == 0
sys.path.insert(0, stubs)
import demo_pb2 as pb  # noqa: E402
import demo_pb2_grpc  # noqa: E402



def connect(**options):
    """A channel of its own."""
    if not authority:
        return grpc.insecure_channel(address, **options)
    with open(authority[0], "rb") as file:
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(file.read()), **options)


channel = connect(options=[("grpc.max_receive_message_length", 16 << 20)])
grpc.channel_ready_future(channel).result(timeout=60)
echo = demo_pb2_grpc.EchoStub(channel)


def fails(code, call):
    """What a call says that ends with this code."""
    try:
        call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), error.details(), code)
        return error.details()
    raise AssertionError(f"not {code}")


# Unary: small, empty, long (many HTTP/2 frames each way), with metadata.
assert echo.Say(pb.SayRequest(text="héllo")).text == "héllo"
assert echo.Say(pb.SayRequest()).text == ""
long = "x" * (4 << 20)
assert echo.Say(pb.SayRequest(text=long), timeout=60).text == long
assert echo.Say(pb.SayRequest(text="m"), metadata=[("x-user", "ann"), ("key-bin", b"\x00\xff")]).text == "m"
assert echo.Wait(pb.WaitRequest(text="late", milliseconds=20), timeout=60).text == "late"

# Many at once over one connection.
futures = [echo.Say.future(pb.SayRequest(text=str(n))) for n in range(500)]
assert [f.result(timeout=60).text for f in futures] == [str(n) for n in range(500)]

# Streams.
assert [n.value for n in echo.Count(pb.CountRequest(to=1000), timeout=60)] == list(range(1, 1001))
assert echo.Sum((pb.Number(value=n) for n in range(1000)), timeout=60).value == sum(range(1000))
assert echo.Sum(iter(()), timeout=60).value == 0
said = echo.Chat((pb.SayRequest(text=str(n)) for n in range(300)), timeout=60)
assert [s.text for s in said] == [str(n) for n in range(300)]

# A conversation: each side waits for the other.
turn = threading.Semaphore(1)


def asks():
    for n in range(20):
        assert turn.acquire(timeout=60)
        yield pb.SayRequest(text=str(n))


for n, answer in enumerate(echo.Chat(asks(), timeout=60)):
    assert answer.text == str(n)
    turn.release()

# Every status code by its number and words.
for code in grpc.StatusCode:
    if code is not grpc.StatusCode.OK:
        request = pb.FailRequest(code=code.value[0], message="50% größe")
        assert fails(code, lambda: echo.Fail(request)) == "50% größe", code

# Deadlines, cancellation, what does not exist, what is too long.
late = pb.WaitRequest(text="never", milliseconds=60_000)
fails(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: echo.Wait(late, timeout=0.05))
waiting = echo.Wait.future(late)
waiting.cancel()
assert waiting.cancelled()
unknown = channel.unary_unary("/demo.Echo/None", request_serializer=bytes, response_deserializer=bytes)
assert "/demo.Echo/None" in fails(grpc.StatusCode.UNIMPLEMENTED, lambda: unknown(b""))
too_long = pb.SayRequest(text="x" * (9 << 20))
fails(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: echo.Say(too_long, timeout=60))
garbage = channel.unary_unary("/demo.Echo/Say", request_serializer=bytes, response_deserializer=bytes)
fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: garbage(b"\xff\xff\xff"))
# Compression: gzip both ways, also of streams; another kind is refused, and so is what grows beyond all bounds.
squeezed = demo_pb2_grpc.EchoStub(connect(compression=grpc.Compression.Gzip))
assert squeezed.Say(pb.SayRequest(text="z" * 100_000), timeout=60).text == "z" * 100_000
said = squeezed.Chat((pb.SayRequest(text=str(n) * 100) for n in range(50)), timeout=60)
assert [s.text for s in said] == [str(n) * 100 for n in range(50)]
deflated = demo_pb2_grpc.EchoStub(connect(compression=grpc.Compression.Deflate))
refused = fails(grpc.StatusCode.UNIMPLEMENTED, lambda: deflated.Say(pb.SayRequest(text="z" * 10_000), timeout=60))
assert "gzip" in refused, refused
bomb = pb.SayRequest(text="x" * (64 << 20))
fails(grpc.StatusCode.RESOURCE_EXHAUSTED, lambda: squeezed.Say(bomb, timeout=60))

# Reflection: a tool that has no .proto files calls a method. grpcio's client asks version v1alpha.
services = ReflectionDatabase(channel)
for name in ["demo.Echo", "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection"]:
    assert name in services.get_services(), (name, services.get_services())
pool = DescriptorPool(services)
say = pool.FindServiceByName("demo.Echo").FindMethodByName("Say")
request, response = (message_factory.GetMessageClass(kind) for kind in (say.input_type, say.output_type))
by_name = channel.unary_unary(
    "/demo.Echo/Say", request_serializer=request.SerializeToString, response_deserializer=response.FromString
)
assert by_name(request(text="by reflection"), timeout=60).text == "by reflection"
assert pool.FindExtensionByNumber(pool.FindMessageTypeByName("google.protobuf.MethodOptions"), 51235).name == "key"
for wrong in [lambda: pool.FindServiceByName("demo.None"), lambda: pool.FindFileByName("none.proto")]:
    try:
        wrong()
        raise AssertionError("found")
    except KeyError:
        pass

# The same stream asked question after question, in version v1.
of_v1 = channel.stream_stream(
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    request_serializer=reflection_pb2.ServerReflectionRequest.SerializeToString,
    response_deserializer=reflection_pb2.ServerReflectionResponse.FromString,
)
questions = [
    reflection_pb2.ServerReflectionRequest(host="h", list_services=""),
    reflection_pb2.ServerReflectionRequest(file_containing_symbol="demo.Echo"),
    reflection_pb2.ServerReflectionRequest(file_containing_symbol="demo.Nothing"),
    reflection_pb2.ServerReflectionRequest(file_by_filename="demo.proto"),
]
answers = list(of_v1(iter(questions), timeout=60))
assert [a.WhichOneof("message_response") for a in answers] == [
    "list_services_response",
    "file_descriptor_response",
    "error_response",
    "file_descriptor_response",
], answers
assert [a.original_request for a in answers] == questions and answers[0].valid_host == "h"
assert answers[2].error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]

# Health: of the whole, of a service, of none; watched until the client has enough.
health = health_pb2_grpc.HealthStub(channel)
SERVING = health_pb2.HealthCheckResponse.SERVING
for service in ["", "demo.Echo", "grpc.health.v1.Health"]:
    assert health.Check(health_pb2.HealthCheckRequest(service=service), timeout=60).status == SERVING, service
nothing = health_pb2.HealthCheckRequest(service="demo.Nothing")
fails(grpc.StatusCode.NOT_FOUND, lambda: health.Check(nothing, timeout=60))
for service, status in [("demo.Echo", SERVING), ("demo.Nothing", health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)]:
    watched = health.Watch(health_pb2.HealthCheckRequest(service=service), timeout=60)
    assert next(watched).status == status, service
    watched.cancel()

assert echo.Say(pb.SayRequest(text="still there")).text == "still there"
print("everything as it should be")
