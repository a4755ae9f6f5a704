"""An ordinary grpcio client, with stubs by grpc_tools, against a fabric service behind the gateway.

Usage: grpc_client.py ADDRESS PROTO-FOLDER STUB-FOLDER
"""

import os
import sys
import threading

import grpc
import grpc_tools
from grpc_tools import protoc

address, protos, stubs = sys.argv[1:]
# Where methods say what they are, stock protoc needs the file that `millrace rpc options` prints; it is among the stubs.
files = ["demo.proto", "millrace/options.proto"]
of_protobuf = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
arguments = ["protoc", f"-I{protos}", f"-I{stubs}", f"-I{of_protobuf}", f"--python_out={stubs}", f"--grpc_python_out={stubs}", *files]
assert protoc.main(arguments) == 0
sys.path.insert(0, stubs)
import demo_pb2 as pb  # noqa: E402
import demo_pb2_grpc  # noqa: E402

channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", 16 << 20)])
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
compressed = grpc.insecure_channel(address, compression=grpc.Compression.Gzip)
fails(
    grpc.StatusCode.UNIMPLEMENTED,
    lambda: demo_pb2_grpc.EchoStub(compressed).Say(pb.SayRequest(text="z" * 10_000), timeout=60),
)

assert echo.Say(pb.SayRequest(text="still there")).text == "still there"
print("everything as it should be")
