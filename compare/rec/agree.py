#!/usr/bin/env python3
"""Whether millrace's scores are PyTorch's, on random DLRM models: agree.py [MODELS]; needs PyTorch and cargo.

Each model (EmbeddingBag and Linear layers; dot or concat; the reference's names or TorchRec's; sum, mean, max, weighted sum) is written as safetensors,
`cargo run --release -p millrace-rec --example infer` scores random queries, and the scores are compared:
  f32               with PyTorch's in f32                                         at most 1e-5
  f16, int8, int4   with PyTorch's in f32 over rows rounded as docs/design/007-rec.md says      at most 1e-5
                    with PyTorch's over the rows as they were                     at most BOUND
Differences are relative to the greatest score of the batch; half of the models end without a sigmoid.
"""
import json, os, subprocess, sys, tempfile
import numpy as np
import torch
from torch import nn
from export import save

BOUND = {"f32": 1e-5, "f16": 2e-3, "int8": 2e-2, "int4": 2e-1}


def mlp(sizes):
    return [nn.Linear(a, b) for a, b in zip(sizes, sizes[1:])]


def rounded(rows, form):
    """Rows as a format keeps them; the arithmetic is in f32, as there."""
    x = rows.numpy()
    if form == "f32":
        return rows
    if form == "f16":
        return rows.half().float()
    steps = np.float32(255 if form == "int8" else 15)
    least, most = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    scale = (most - least) / steps
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    q = np.clip(np.floor((x - least) * inverse + np.float32(0.5)), 0, steps)
    return torch.from_numpy((q * scale + least).astype(np.float32))


class Model:
    def __init__(self, rng):
        pick = lambda *of: of[rng.integers(len(of))]
        self.dim, self.dense, count = pick(16, 32, 64, 128, 10), int(rng.integers(1, 20)), int(rng.integers(1, 10))
        self.dot, self.torchrec, self.sigmoid = pick(True, False), pick(True, False), pick(True, False)
        if self.torchrec:
            self.dot = True
        self.modes = [pick("sum", "mean", "max", "weighted") for _ in range(count)]
        self.tables = [torch.randn(int(rng.integers(1, 3000)), self.dim) * 0.3 for _ in range(count)]
        width = self.dim + count * (count + 1) // 2 if self.dot else self.dim * (count + 1)
        self.bottom = mlp([self.dense, *[int(rng.integers(1, 300)) for _ in range(rng.integers(3))], self.dim])
        self.top = mlp([width, *[int(rng.integers(1, 300)) for _ in range(rng.integers(1, 3))], int(pick(1, 1, 3, 20))])

    def save(self, folder):
        named = {}
        table = "sparse_arch.embedding_bag_collection.embedding_bags.t_%d" if self.torchrec else "emb_l.%d"
        for k, rows in enumerate(self.tables):
            named[f"{table % k}.weight"] = rows
        for part, layers in (("bottom", self.bottom), ("top", self.top)):
            for i, layer in enumerate(layers):
                if not self.torchrec:
                    name = f"{part[:3]}_l.{2 * i}"
                elif part == "bottom":
                    name = f"dense_arch.model._mlp.{i}._linear"
                else:
                    name = "over_arch.model.1" if i + 1 == len(layers) else f"over_arch.model.0._mlp.{i}._linear"
                named[f"{name}.weight"], named[f"{name}.bias"] = layer.weight, layer.bias
        tables = [
            {"name": f"table {k}", "tensor": f"{table % k}.weight", "pooling": "sum" if mode == "weighted" else mode}
            for k, mode in enumerate(self.modes)
        ]
        save(named, folder, {"name": "random", "tables": tables, "sigmoid": bool(self.sigmoid)})

    def queries(self, rng):
        length = int(rng.integers(1, 40))
        tables = []
        for rows, mode in zip(self.tables, self.modes):
            lens = rng.integers(0, 30, length)
            ids = {"offsets": [0, *np.cumsum(lens).tolist()], "values": rng.integers(0, len(rows), lens.sum()).tolist()}
            if mode == "weighted":
                ids["weights"] = rng.normal(size=lens.sum()).astype(np.float32).tolist()
            tables.append(ids)
        return {"len": length, "dense": rng.normal(size=length * self.dense).astype(np.float32).tolist(), "tables": tables}

    @torch.no_grad()
    def scores(self, queries, form):
        x = torch.tensor(queries["dense"]).reshape(queries["len"], self.dense)
        for layer in self.bottom:
            x = torch.relu(layer(x))
        vectors = [x]
        for rows, mode, ids in zip(self.tables, self.modes, queries["tables"]):
            weights = torch.tensor(ids["weights"]) if mode == "weighted" else None
            bag = nn.EmbeddingBag.from_pretrained(
                rounded(rows, form), mode="sum" if mode == "weighted" else mode, include_last_offset=True
            )
            vectors.append(bag(torch.tensor(ids["values"], dtype=torch.long), torch.tensor(ids["offsets"]), weights))
        if self.dot:
            t = torch.stack(vectors, dim=1)
            z, n = torch.bmm(t, t.transpose(1, 2)), len(vectors)
            # The reference: rows below the diagonal. TorchRec: rows above it.
            lower = [(i, j) for i in range(n) for j in range(i)]
            upper = [(i, j) for i in range(n) for j in range(i + 1, n)]
            i, j = zip(*(upper if self.torchrec else lower))
            x = torch.cat([x, z[:, list(i), list(j)]], dim=1)
        else:
            x = torch.cat(vectors, dim=1)
        for layer in self.top[:-1]:
            x = torch.relu(layer(x))
        x = self.top[-1](x)
        return (torch.sigmoid(x) if self.sigmoid else x).flatten().numpy()


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 12
    worst = {form: [0.0, 0.0] for form in BOUND}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "queries.json")
        for seed in range(count):
            rng = np.random.default_rng(seed)
            torch.manual_seed(seed)
            model = Model(rng)
            model.save(folder)
            queries = model.queries(rng)
            with open(path, "w") as out:
                json.dump(queries, out)
            for form in BOUND:
                if form == "int4" and model.dim % 2:
                    continue
                run = "cargo run -q --release -p millrace-rec --example infer --".split()
                out = subprocess.run([*run, folder, path, form], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                have = np.array(json.loads(out.stdout), dtype=np.float64)
                for k, as_form in enumerate((form, "f32")):
                    want = model.scores(queries, as_form)
                    assert have.shape == want.shape, (have.shape, want.shape)
                    differ = np.abs(have - want).max() / np.abs(want).max()
                    worst[form][k] = max(worst[form][k], differ)
                    if not differ <= (1e-5 if k == 0 else BOUND[form]):
                        print(f"seed {seed} {form}: differs by {differ:.2e} from PyTorch over {as_form} rows")
    print(f"{count} models, greatest difference relative to the batch's greatest score")
    ok = True
    for form, (same, plain) in worst.items():
        ok &= same <= 1e-5 and plain <= BOUND[form]
        print(f"  {form:5} same rows {same:.1e} (at most 1e-5)   rows before rounding {plain:.1e} (at most {BOUND[form]:.0e})")
    print("agree" if ok else "DO NOT AGREE")
    return not ok


if __name__ == "__main__":
    sys.exit(main())
