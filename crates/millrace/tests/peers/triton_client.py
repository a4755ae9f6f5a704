"""Triton's Python clients, over gRPC and HTTP, against `millrace rec serve --tables 2 --dense 3`.

Usage: triton_client.py GRPC-ADDRESS HTTP-ADDRESS
"""

import sys
import urllib.request

import grpc
import numpy as np
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from grpc_health.v1 import health_pb2, health_pb2_grpc

grpc_address, http_address = sys.argv[1:]
MODEL = "synthetic"

tensors = {
    "dense": ("FP32", np.array([[0.5, 1, 2], [2, 3, 4]], dtype=np.float32)),
    "t0.values": ("INT64", np.array([1, 2, 3], dtype=np.int64)),
    "t0.offsets": ("INT32", np.array([0, 2], dtype=np.int32)),
    "t1.values": ("INT64", np.array([4, 4], dtype=np.int64)),
    "t1.offsets": ("INT32", np.array([0, 0], dtype=np.int32)),
}


def inputs(of, change=None):
    """The tensors, as inputs of one of the two clients."""
    made = []
    for name, (datatype, data) in {**tensors, **(change or {})}.items():
        made.append(of.InferInput(name, list(data.shape), datatype))
        made[-1].set_data_from_numpy(data)
    return made


def refused(call):
    """What a call says that is refused."""
    try:
        call()
    except Exception as error:  # Each client has an exception of its own.
        return str(error)
    raise AssertionError("answered")


client = over_grpc.InferenceServerClient(grpc_address)
web = over_http.InferenceServerClient(http_address)
for one in [client, web]:
    assert one.is_server_live() and one.is_server_ready() and one.is_model_ready(MODEL)

of_server = client.get_server_metadata(as_json=True)
assert of_server == web.get_server_metadata(), of_server
of_model, same = client.get_model_metadata(MODEL, as_json=True), web.get_model_metadata(MODEL)
for part in ["inputs", "outputs"]:
    # int64 is a text in protobuf's JSON.
    over = [{**tensor, "shape": [int(size) for size in tensor["shape"]]} for tensor in of_model[part]]
    assert over == same[part], (over, same[part])
assert (of_model["name"], of_model["platform"]) == (same["name"], same["platform"])
version = of_model["versions"][0]
assert client.get_model_repository_index(as_json=True)["models"][0]["name"] == MODEL

# How it is configured; the only model of a server is not unloaded, and loads anew.
of_config = client.get_model_config(MODEL, as_json=True)["config"]
same = web.get_model_config(MODEL)
assert of_config["name"] == same["name"] == MODEL, (of_config, same)
assert of_config["max_batch_size"] == same["max_batch_size"] > 0, (of_config, same)
assert [one["data_type"] for one in of_config["input"]] == [one["data_type"] for one in same["input"]]
assert of_config["parameters"]["t0.row_format"] == same["parameters"]["t0.row_format"], (of_config, same)
for one in [client, web]:
    assert "the only model" in refused(lambda: one.unload_model(MODEL)), one
    one.load_model(MODEL)

# The same scores, however they are asked for.
binary = client.infer(MODEL, inputs(over_grpc), request_id="7")
scores = binary.as_numpy("scores")
assert scores.shape == (2, 1) and np.isfinite(scores).all(), scores
answer = binary.get_response()
assert (answer.id, answer.model_name, answer.model_version) == ("7", MODEL, version), answer
assert answer.parameters["together"].int64_param == 2, answer.parameters
for squeezed in [None, "gzip"]:
    again = client.infer(MODEL, inputs(over_grpc), model_version=version, compression_algorithm=squeezed)
    assert (again.as_numpy("scores") == scores).all()
    by_http = web.infer(
        MODEL,
        inputs(over_http),
        request_compression_algorithm=squeezed,
        response_compression_algorithm=squeezed,
    )
    assert (by_http.as_numpy("scores") == scores).all()

# Many answers are long enough to be compressed.
many = {
    "dense": ("FP32", np.tile(np.array([[0.5, 1, 2]], dtype=np.float32), (1000, 1))),
    "t0.values": ("INT64", np.zeros(0, dtype=np.int64)),
    "t0.offsets": ("INT32", np.zeros(1000, dtype=np.int32)),
    "t1.values": ("INT64", np.zeros(0, dtype=np.int64)),
    "t1.offsets": ("INT32", np.zeros(1000, dtype=np.int32)),
}
wide = web.infer(MODEL, inputs(over_http, many), response_compression_algorithm="gzip")
plain = client.infer(MODEL, inputs(over_grpc, many))
assert (wide.as_numpy("scores") == plain.as_numpy("scores")).all() and len(plain.as_numpy("scores")) == 1000

# Data as typed contents, as clients write them who have no arrays.
pb, stub = over_grpc.service_pb2, over_grpc.service_pb2_grpc.GRPCInferenceServiceStub(grpc.insecure_channel(grpc_address))
fields = {"FP32": "fp32_contents", "INT64": "int64_contents", "INT32": "int_contents"}
typed = pb.ModelInferRequest(
    model_name=MODEL,
    inputs=[
        pb.ModelInferRequest.InferInputTensor(
            name=name,
            datatype=datatype,
            shape=data.shape,
            contents=pb.InferTensorContents(**{fields[datatype]: data.ravel().tolist()}),
        )
        for name, (datatype, data) in tensors.items()
    ],
)
answer = stub.ModelInfer(typed)
assert list(answer.outputs[0].shape) == [2, 1] and not answer.raw_output_contents
assert np.allclose(answer.outputs[0].contents.fp32_contents, scores.ravel())
by_feature = pb.ModelInferRequest.InferInputTensor(
    name="features",
    datatype="BYTES",
    shape=[2],
    contents=pb.InferTensorContents(bytes_contents=[b"t0: 1; t0: 2; t1: 0", b"t0: 3; t1: 1"]),
)
typed = pb.ModelInferRequest(model_name=MODEL, inputs=[typed.inputs[0], by_feature])
assert len(stub.ModelInfer(typed).outputs[0].contents.fp32_contents) == 2

# What is wrong is said, with the tensor's name.
beyond = {"t0.values": ("INT64", np.array([1, 2, 1 << 40], dtype=np.int64))}
for said in [
    refused(lambda: client.infer(MODEL, inputs(over_grpc, beyond))),
    refused(lambda: web.infer(MODEL, inputs(over_http, beyond))),
]:
    assert "t0.values" in said, said
for call in [
    lambda: client.infer("other", inputs(over_grpc)),
    lambda: client.infer(MODEL, inputs(over_grpc), model_version="99"),
    lambda: client.is_model_ready("other"),
    lambda: client.get_model_metadata("other"),
]:
    assert "NOT_FOUND" in refused(call), refused(call)
typed.inputs[0].shape[0] = 3
assert "dense" in refused(lambda: stub.ModelInfer(typed))
typed.inputs[0].shape[0] = -1
assert "less than 0" in refused(lambda: stub.ModelInfer(typed))
assert "scores" in refused(
    lambda: client.infer(MODEL, inputs(over_grpc), outputs=[over_grpc.InferRequestedOutput("other")])
)

# What was counted, the same over both; and metrics at the same port.
counted = client.get_inference_statistics(MODEL, as_json=True)["model_stats"][0]
same = web.get_inference_statistics(MODEL)["model_stats"][0]
assert int(counted["inference_count"]) == same["inference_count"] > 2000, (counted, same)
assert int(counted["inference_stats"]["success"]["count"]) == same["inference_stats"]["success"]["count"]
assert same["inference_stats"]["success"]["ns"] >= same["inference_stats"]["queue"]["ns"] > 0
assert same["inference_stats"]["fail"]["count"] >= 5
metrics = urllib.request.urlopen(f"http://{http_address}/metrics").read().decode()
assert "millrace_rec_queries_total" in metrics and "process_cpu_seconds_total" in metrics, metrics

health = health_pb2_grpc.HealthStub(grpc.insecure_channel(grpc_address))
for service in ["", "inference.GRPCInferenceService", "millrace.Recommend"]:
    status = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=60).status
    assert status == health_pb2.HealthCheckResponse.SERVING, service
print("the model answers as it should")
