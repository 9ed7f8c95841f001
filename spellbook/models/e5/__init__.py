"""The bundled model, multilingual-e5-small: its weights, its ONNX graph, its tokenizer, and their check against each other."""
