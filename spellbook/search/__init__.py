"""From a question to an answer: parse, retrieve, fuse, rank, pack, explain. Only reads."""
