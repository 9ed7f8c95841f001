"""
The bundled model, multilingual-e5-small.

It has the weights, the ONNX graph, the tokenizer, and the check of one against the other.
"""
