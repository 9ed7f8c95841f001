"""universal-sentence-encoder-multilingual 3: a second embedder, small and fast. Nothing here chooses an embedder."""
