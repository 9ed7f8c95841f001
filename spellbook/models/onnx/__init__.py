"""ONNX graphs: written, loaded, run and released, by onnxruntime."""

from spellbook.system.lazy import late

late(__name__, "lazy_engine")
