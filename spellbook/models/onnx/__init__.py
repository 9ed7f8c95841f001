"""Models from folders in the format of sentence-transformers, run by onnxruntime."""
