"""ONNX graphs: written, loaded, run and released, by onnxruntime."""
