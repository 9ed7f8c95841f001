"""What loads, runs and releases ONNX graphs, by onnxruntime."""
