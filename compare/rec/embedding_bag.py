#!/usr/bin/env python3
"""PyTorch's EmbeddingBag (mode "sum") on one thread, beside `cargo bench -p millrace-rec --bench reduce -- --pytorch python3`.

Alone it draws uniform ids itself and prints rows/s and GB/s of gathered rows:

    compare/rec/embedding_bag.py --rows 4194304 --dim 64 --bag 80 --batch 256

With --serve the bench gives orders on standard input, a line each, and gets a line back, so that both sides run in turns, on the
same ids, over tables of the same numbers, on the same core:

    load PATH          reads slices of batches; answers which type of index was faster and is used from now on
    run MODE SLICE     reduces every batch of the slice; answers the thread's seconds. MODE is f32 or int8
    sums MODE PATH     writes the sums of the first batch as little endian f32
    end

The given help: numpy asks for huge pages for its arrays, as the bench does for its tables; no gradients; one thread, pinned; int8 is
`quantized::embedding_bag_byte` (FBGEMM, where the wheel has it), whose rows are laid out as millrace's are.
Needs torch and numpy (a CPU wheel is enough).
"""

import argparse
import os
import sys
import time

import numpy as np
import torch


def number(places):
    """What stands at a place of the table, as benches/reduce/main.rs has it; exact in f32. Works on `places`, u32."""
    places *= np.uint32(0x9E3779B1)
    places ^= places >> np.uint32(16)
    places *= np.uint32(0x85EBCA6B)
    places >>= np.uint32(8)
    return places.astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)


def table(rows, dim):
    weights = np.empty(rows * dim, dtype=np.float32)
    step = 1 << 22
    for at in range(0, rows * dim, step):
        end = min(at + step, rows * dim)
        weights[at:end] = number((np.arange(at, end, dtype=np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    return torch.from_numpy(weights.reshape(rows, dim))


class Tables:
    def __init__(self, rows, dim):
        weights = table(rows, dim)
        self.bag = torch.nn.EmbeddingBag(rows, dim, mode="sum", include_last_offset=True, _weight=weights)
        pack = torch.ops.quantized.embedding_bag_byte_prepack
        packed = np.empty((rows, dim + 8), dtype=np.uint8)
        for at in range(0, rows, 1 << 18):
            packed[at : at + (1 << 18)] = pack(weights[at : at + (1 << 18)]).numpy()
        self.packed = torch.from_numpy(packed)

    def sums(self, mode, values, offsets):
        if mode == "f32":
            return self.bag(values, offsets)
        reduce = torch.ops.quantized.embedding_bag_byte_rowwise_offsets
        return reduce(self.packed, values, offsets, False, 0, False, None, None, True)

    def seconds(self, mode, batches):
        start = time.thread_time()
        for values, offsets in batches:
            self.sums(mode, values, offsets)
        return time.thread_time() - start


def read(path):
    words = np.fromfile(path, dtype="<u4").astype(np.int64)
    at = 1
    slices = []
    for _ in range(words[0]):
        batches, at = [], at + 1
        for _ in range(words[at - 1]):
            values, offsets = words[at], words[at + 1]
            at += 2
            batches.append((words[at : at + values], words[at + values : at + values + offsets]))
            at += values + offsets
        slices.append(batches)
    return slices


def as_tensors(slices, kind):
    """Fresh memory for each batch, aligned as torch likes it."""
    return [[tuple(torch.from_numpy(x).to(kind, copy=True) for x in batch) for batch in batches] for batches in slices]


def serve(tables):
    slices = []
    for line in sys.stdin:
        order, *rest = line.split()
        answer = "done"
        if order == "load":
            raw = read(rest[0])
            timed = []
            for kind in (torch.int32, torch.int64):
                tried = as_tensors(raw, kind)
                timed.append((min(tables.seconds("f32", batches) for batches in tried[:6]), str(kind), tried))
            slices, answer = min(timed, key=lambda t: t[0])[2], "index " + min(timed, key=lambda t: t[0])[1]
        elif order == "run":
            answer = repr(tables.seconds(rest[0], slices[int(rest[1])]))
        elif order == "sums":
            tables.sums(rest[0], *slices[0][0]).numpy().astype("<f4").tofile(rest[1])
        elif order == "end":
            print("bye", flush=True)
            return
        print(answer, flush=True)


def alone(tables, arguments):
    generator = np.random.default_rng(1)
    count = max(1, (1 << 16) // (arguments.bag * arguments.batch))
    ids = arguments.bag * arguments.batch
    slices = [
        [
            (generator.integers(0, arguments.rows, ids), np.arange(0, ids + 1, arguments.bag))
            for _ in range(count)
        ]
        for _ in range(32)
    ]
    for mode, row_bytes in (("f32", arguments.dim * 4), ("int8", arguments.dim + 8)):
        samples = [tables.seconds(mode, batches) for batches in as_tensors(slices, torch.int64) for _ in range(2)]
        rate = count * ids / np.median(samples)
        print(f"{mode:<6} {rate / 1e6:8.2f} Mrows/s {rate * row_bytes / 1e9:8.2f} GB/s of {row_bytes}-byte rows")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1 << 22)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--bag", type=int, default=80)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--core", type=int, help="run there only")
    parser.add_argument("--serve", action="store_true")
    arguments = parser.parse_args()
    if arguments.core is not None:
        os.sched_setaffinity(0, {arguments.core})
    torch.set_num_threads(1)
    with torch.no_grad():
        tables = Tables(arguments.rows, arguments.dim)
        if arguments.serve:
            print(f"PyTorch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, one thread", flush=True)
            serve(tables)
        else:
            alone(tables, arguments)


if __name__ == "__main__":
    main()
