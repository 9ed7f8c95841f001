"""universal-sentence-encoder-multilingual, a second embedder that reads small and fast. Nothing here chooses between embedders."""
