"""From a question to an answer: filter, retrieve, fuse, rerank, adjust, choose, pack, explain. It only reads."""
