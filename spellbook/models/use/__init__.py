"""universal-sentence-encoder-multilingual: a small, fast second encoder. Nothing here chooses between embedders."""
