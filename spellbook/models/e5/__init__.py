"""The bundled model, multilingual-e5-small."""
