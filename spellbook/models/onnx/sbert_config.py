"""
Read how a sentence-transformers folder wants its texts embedded, from its files, without loading the model.

Unsupported settings are refused: a slightly wrong vector is worse than none.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spellbook.models import file_cache
from spellbook.models.families import Family, family

POOLINGS: Mapping[str, str] = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
"""Ways of pooling the vectors of tokens, in the order of joining, and the keys by which a folder asks for them."""

ACTIVATIONS = {"identity", "tanh"}
"""What may follow a dense layer."""

_FORM = 1
"""How a recipe is carried out: grows when the same files would give other vectors."""

_USUAL = 512
"""Tokens that a model reads at once if its folder names no number."""

_MOST = 8_192
"""Most tokens that go through a graph at once: time and memory grow with their square."""

_PADDED = ("roberta", "camembert", "xlm", "mpnet")
"""Model types whose positions begin after that of the padding, so that two fewer are left for tokens."""


class Unusable(Exception):
    """A folder that holds no model that can be run; says why, and what to do."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Dense:
    """A layer behind the pooling: its weights in a safetensors file, and one of `ACTIVATIONS`."""

    file: Path
    activation: str


@dataclass(frozen=True, slots=True)
class Recipe:
    """
    How a text is embedded: `query` or `passage` in front, then `graph`, `pooling` and `dense`.

    `longest`: the most tokens that go through the graph at once.
    `with_prompt`: the text in front counts in the pooling. `lower`: the text is made lower case first. `width` and
    `words`: numbers of a vector and pieces of the vocabulary, 0 if the folder does not say.
    """

    graph: Path
    tokenizer: Path
    query: str
    passage: str
    longest: int
    pooling: tuple[str, ...]
    dense: tuple[Dense, ...] = ()
    with_prompt: bool = True
    lower: bool = False
    width: int = 0
    words: int = 0

    def digest(self) -> str:
        """Return a hash of every file and setting that a vector depends on. Raises OSError."""
        data = sorted(file for file in self.graph.parent.iterdir() if belongs(file.name, self.graph.name))
        files = [self.graph, *data, self.tokenizer, *(layer.file for layer in self.dense)]
        settings = [_FORM, self.query, self.passage, self.longest, self.pooling, self.with_prompt, self.lower]
        settings += [layer.activation for layer in self.dense]
        whole = json.dumps([settings, [file_cache.sum_of(file) for file in files]])
        return hashlib.sha256(whole.encode()).hexdigest()


def read(place: Path) -> Recipe:
    """Return the recipe of the folder `place`, or of the graph `place` in such a folder. Raises Unusable."""
    if not place.exists():
        raise Unusable(f"There is no folder {place}.", "Name a folder with model.onnx and tokenizer.json in it.")
    graph = _graph(place) if place.is_dir() else place
    # Some of the files are beside the graph, others one folder above.
    roots = [graph.parent.parent, graph.parent] if graph.parent.name == "onnx" else [graph.parent]
    tokenizer = _first(roots, "tokenizer.json")
    if tokenizer is None:
        raise Unusable(
            f"{roots[0]} has no tokenizer.json.",
            "Save the tokeniser in its fast form, with transformers' save_pretrained.",
        )
    config = _config(roots, "config.json")
    pulled = str(_config(roots, "manifest.json").get("model", ""))
    names = (str(config.get("_name_or_path", "")), pulled, *(root.name for root in roots))
    kin = next((one for one in map(family, names) if one.looks), Family())
    pooling, with_prompt, dense = _modules(roots, kin)
    query, passage = _prompts(_config(roots, "config_sentence_transformers.json"), kin)
    transformer = _config(roots, "sentence_bert_config.json")
    longest = _longest(transformer, _config(roots, "tokenizer_config.json"), config)
    lower = bool(transformer.get("do_lower_case"))
    width, words = (_whole(config.get(name)) or 0 for name in ("hidden_size", "vocab_size"))
    return Recipe(graph, tokenizer, query, passage, longest, pooling, dense, with_prompt, lower, width, words)


def graphs(names: Sequence[str]) -> list[str]:
    """Return those of the paths `names`, relative to a folder, that may be its graph, the likeliest first."""
    files = [name for name in names if name.endswith(".onnx") and name.rpartition("/")[0] in {"", "onnx"}]
    return sorted(files, key=lambda name: (name.rpartition("/")[2] != "model.onnx", name.startswith("onnx/"), name))


def belongs(name: str, graph: str) -> bool:
    """Say whether a file of this name holds weights of `graph`, which lies beside it."""
    data = (graph, f"{graph.removesuffix('.onnx')}.data")
    return name != graph and name.startswith(data) and not name.endswith((".onnx", ".json"))


def _graph(folder: Path) -> Path:
    files = (*folder.glob("*.onnx"), *folder.glob("onnx/*.onnx"))
    names = graphs([file.relative_to(folder).as_posix() for file in files])
    if not names:
        raise Unusable(f"{folder} has no ONNX graph.", f"Make one: `optimum-cli export onnx --model {folder} FOLDER`.")
    if len(names) > 1 and names[0].rpartition("/")[2] != "model.onnx":
        raise Unusable(f"{folder} has several graphs: {', '.join(names)}.", f"Choose one: onnx:{folder / names[0]}.")
    return folder / names[0]


def _modules(roots: Sequence[Path], kin: Family) -> tuple[tuple[str, ...], bool, tuple[Dense, ...]]:
    """Return how the vectors of tokens are pooled, whether those of the prompt count, and the layers behind."""
    root = roots[0]
    modules: Any = []
    if file := _first(roots, "modules.json"):
        root, modules = file.parent, _json(file)
    elif pooled := _first(roots, "1_Pooling/config.json"):
        root, modules = pooled.parent.parent, [{"type": "Pooling", "path": "1_Pooling"}]
    pooling: tuple[str, ...] = (kin.pooling,)
    with_prompt = True
    dense = []
    if not isinstance(modules, list) or not all(
        isinstance(row, dict) and {"type", "path"} <= row.keys() for row in modules
    ):
        raise Unusable(f"{file} is not a list of modules.", "Copy or pull the folder again.")
    for module in modules:
        kind, folder = str(module["type"]).rpartition(".")[2], root / str(module["path"])
        if kind == "Pooling":
            pooling, with_prompt = _pooling(folder)
        elif kind == "Dense":
            dense.append(_dense(folder))
        elif kind not in {"Transformer", "Normalize"}:
            raise Unusable(f"{root} asks for a layer {kind!r:.60}, which is not known here.", "Choose another model.")
    return pooling, with_prompt, tuple(dense)


def _pooling(folder: Path) -> tuple[tuple[str, ...], bool]:
    settings = _config([folder], "config.json")
    mode = settings.get("pooling_mode") or [name for name, key in POOLINGS.items() if settings.get(key)]
    names = [str(name) for name in mode] if isinstance(mode, list) else [str(mode)]
    if not names or not set(names) <= POOLINGS.keys():
        raise Unusable(
            f"{folder} pools by {', '.join(names) or 'nothing'}, which is not known here.",
            "Choose another model.",
        )
    return tuple(name for name in POOLINGS if name in names), bool(settings.get("include_prompt", True))


def _dense(folder: Path) -> Dense:
    settings = _config([folder], "config.json")
    activation = str(settings.get("activation_function", "identity")).rpartition(".")[2].lower()
    file = folder / "model.safetensors"
    if activation not in ACTIVATIONS or not file.is_file():
        wants = f"{activation} after it" if activation not in ACTIVATIONS else "no model.safetensors"
        raise Unusable(
            f"The dense layer in {folder} has {wants}.", "Save the model again with a current sentence-transformers."
        )
    return Dense(file, activation)


def _prompts(settings: Mapping[str, Any], kin: Family) -> tuple[str, str]:
    """Return the texts in front of a question, and of a passage."""
    texts = settings.get("prompts")
    prompts = {name: text for name, text in texts.items() if isinstance(text, str)} if isinstance(texts, dict) else {}
    usual = prompts.get(str(settings.get("default_prompt_name")), "")
    query, passage = (
        next((prompts[name] for name in names if prompts.get(name)), usual)
        for names in (("query",), ("document", "passage", "corpus"))
    )
    # A folder without either was written by a program that did not know them.
    return (query, passage) if query or passage else (kin.query, kin.passage)


def _longest(transformer: Mapping[str, Any], tokens: Mapping[str, Any], config: Mapping[str, Any]) -> int:
    """Return how many tokens the model reads at once."""
    places = _whole(config.get("max_position_embeddings"))
    if places and str(config.get("model_type", "")).startswith(_PADDED):
        places -= 2
    most = _whole(transformer.get("max_seq_length")) or _whole(tokens.get("model_max_length"))
    return max(8, min(most or places or _USUAL, places or _MOST, _MOST))


def _whole(value: Any) -> int | None:
    """Return a number that makes sense as a count; tokenisers without a limit name one with thirty digits."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 10_000_000 else None


def _first(roots: Sequence[Path], name: str) -> Path | None:
    return next((root / name for root in roots if (root / name).is_file()), None)


def _config(roots: Sequence[Path], name: str) -> Mapping[str, Any]:
    file = _first(roots, name)
    settings = _json(file) if file else {}
    return settings if isinstance(settings, dict) else {}


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"{file} cannot be read ({error}).", "Copy or pull the folder again.") from error
