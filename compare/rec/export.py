#!/usr/bin/env python3
"""Writes a PyTorch DLRM's weights as model.safetensors and model.json for millrace: export.py CHECKPOINT.pt FOLDER [NAME]

The checkpoint is a state_dict, or has one as "state_dict" (dlrm_s_pytorch.py --save-model) or "model". Names stay; see docs/design/007-rec.md.
"""
import json, os, struct, sys


def save(tensors, folder, manifest):
    """safetensors by hand: a header's length, the header, the data."""
    header, end = {}, 0
    tensors = {name: t.detach().cpu().float().contiguous() for name, t in tensors.items()}
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [end, end + 4 * t.numel()]}
        end += 4 * t.numel()
    text = json.dumps(header).encode()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "model.safetensors"), "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for t in tensors.values():
            out.write(t.numpy().tobytes())
    with open(os.path.join(folder, "model.json"), "w") as out:
        json.dump(manifest, out, indent=1)


if __name__ == "__main__":
    import torch
    state = torch.load(sys.argv[1], map_location="cpu")
    state = next((state[key] for key in ("state_dict", "model") if key in state), state)
    save(state, sys.argv[2], {"name": sys.argv[3] if len(sys.argv) > 3 else "dlrm"})
