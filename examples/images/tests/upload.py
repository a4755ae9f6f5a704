"""Ordinary grpcio clients that upload pictures, with stubs by grpc_tools.

Usage: upload.py ADDRESS PROTO-FOLDER FOLDER

FOLDER has picture.raw and tokens, and gets stubs and the replies, one file each. From standard input comes a line for each thing to do, and a line goes to
standard output when it is done: `one ID`, a picture; `many FROM TO CLIENTS`, the pictures of those numbers, by so many clients at once.
"""

import os
import sys
import threading

import grpc
import grpc_tools
from grpc_tools import protoc

address, protos, folder = sys.argv[1:]
of_protobuf = os.path.join(os.path.dirname(grpc_tools.__file__), "_proto")
# Where methods say what they are, stock protoc needs our file of options; it is in the folder.
files = ["photo.proto", "millrace/options.proto"]
arguments = ["protoc", f"-I{protos}", f"-I{folder}", f"-I{of_protobuf}", f"--python_out={folder}", f"--grpc_python_out={folder}", *files]
assert protoc.main(arguments) == 0
sys.path.insert(0, folder)
import photo_pb2 as pb  # noqa: E402
import photo_pb2_grpc  # noqa: E402

raw = open(os.path.join(folder, "picture.raw"), "rb").read()
tokens = open(os.path.join(folder, "tokens")).read().split()


def connected():
    channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    grpc.channel_ready_future(channel).result(timeout=120)
    return photo_pb2_grpc.PhotosStub(channel)


def upload(photos, number):
    photo = photos.Seal(pb.User(id=number, token=tokens[number], avatar=raw), timeout=120)
    assert photo.id == number, (photo.id, number)
    with open(os.path.join(folder, f"{number}.{photo.made_by}"), "wb") as reply:
        reply.write(photo.sealed)


photos = connected()
try:
    photos.Seal(pb.User(id=1, token="a guess", avatar=raw), timeout=120)
    raise AssertionError("a stranger was let in")
except grpc.RpcError as error:
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED, error

print("ready", flush=True)
for line in sys.stdin:
    what, *numbers = line.split()
    numbers = [int(number) for number in numbers]
    if what == "one":
        upload(photos, numbers[0])
    else:
        begin, end, clients = numbers
        failures = []

        def work(first):
            try:
                mine = connected()
                for number in range(begin + first, end, clients):
                    upload(mine, number)
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=[first]) for first in range(clients)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures, failures
    print("done", flush=True)
