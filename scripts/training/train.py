"""
Train the query adapter of e5: `python scripts/training/train.py DATA OUT`, DATA from `tokenise.py`.

Needs PyTorch and a GPU.

The encoder of questions gets low-rank changes (Hu et al., "LoRA", ICLR 2022) in all layers; the encoder of texts, and
so every stored vector, stays as it is. A question is drawn to the text that answers it and away from its rivals, in the
space in which Spellbook compares them, after calibration. What keeps it from forgetting: questions stay near the
vectors that they had (KEEP). What keeps it from answering everything: a question that nothing answers stays away from
all texts of its vault (NEAR). A twelfth of the vaults, and an eighth of the pages, are never trained on; the last lines
say how their questions fare before and after. OUT gets `adapter.npz`; it ships as `spellbook/models/e5/questions.npz`.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

RANK = 16
TEMPERATURE = 0.05
RATE = 5e-4
KEEP = 0.3
"""Weight of the distance from a question's vector without the adapter."""
NEAR = 1.0
"""Weight of what a question that nothing answers comes too near to a text."""
UNRELATED = 0.28
"""Cosine, calibrated, that such a question may have to any text."""
TWINS = 0.9
"""Cosine from which two texts say the same, and are no rivals."""
RIVALS = 7
BATCH = 128
BULK, WRITTEN = 1, 7
"""Passes over headings and sentences, and over the questions that were written."""

WIDTH, HEADS, LAYERS = 384, 12, 12


def weights_of(scales: np.ndarray, nibbles: np.ndarray) -> torch.Tensor:
    """Return a matrix of blocks of 32 weights of 4 bits as float32."""
    halves = nibbles.reshape(*scales.shape, 16)
    whole = np.stack([halves & 15, halves >> 4], -1).reshape(*scales.shape, 32).astype(np.float32) - 8
    return torch.tensor((whole * scales.astype(np.float32)[..., None]).reshape(len(scales), -1))


class Adapted(nn.Module):
    """A linear layer with a low-rank change."""

    def __init__(self, layer: nn.Linear, adapt: bool) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.adapt = adapt
        if adapt:
            self.a = nn.Parameter(torch.randn(RANK, layer.in_features) / math.sqrt(layer.in_features))
            self.b = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) + (x @ self.a.T) @ self.b.T if self.adapt else self.layer(x)


class Block(nn.Module):
    """A layer of e5's encoder."""

    def __init__(self, data: dict[str, np.ndarray], at: int, adapt: bool) -> None:
        super().__init__()

        def linear(name: str) -> Adapted:
            weight = weights_of(data[f"l{at}.{name}.w.s"], data[f"l{at}.{name}.w.n"])
            layer = nn.Linear(weight.shape[1], weight.shape[0])
            layer.weight.data, layer.bias.data = weight, torch.tensor(data[f"l{at}.{name}.b"])
            return Adapted(layer, adapt)

        self.q, self.k, self.v, self.ao, self.fi, self.fo = map(linear, ("q", "k", "v", "ao", "fi", "fo"))
        self.aln, self.oln = normal(data, f"l{at}.aln"), normal(data, f"l{at}.oln")

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        count, length, _ = x.shape
        q, k, v = (part(x).view(count, length, HEADS, -1).transpose(1, 2) for part in (self.q, self.k, self.v))
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2).reshape(count, length, WIDTH)
        x = self.aln(x + F.dropout(self.ao(mixed), 0.1, self.training))
        return self.oln(x + F.dropout(self.fo(F.gelu(self.fi(x))), 0.1, self.training))


def normal(data: dict[str, np.ndarray], name: str) -> nn.LayerNorm:
    layer = nn.LayerNorm(WIDTH, eps=1e-12).requires_grad_(False)
    layer.weight.data, layer.bias.data = torch.tensor(data[f"{name}.w"]), torch.tensor(data[f"{name}.b"])
    return layer


class Encoder(nn.Module):
    """multilingual-e5-small over the part of its vocabulary that the data use."""

    def __init__(self, data: dict[str, np.ndarray], adapt: bool) -> None:
        super().__init__()
        self.words = nn.Parameter(weights_of(data["emb.word.s"], data["emb.word.n"]), requires_grad=False)
        places = torch.tensor(data["emb.pos"]).view(-1, WIDTH) + torch.tensor(data["emb.type"])[:WIDTH]
        self.places = nn.Parameter(places, requires_grad=False)
        self.ln = normal(data, "emb.ln")
        self.layers = nn.ModuleList(Block(data, at, adapt) for at in range(LAYERS))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.ln(self.words[ids] + self.places[: ids.shape[1]])
        for layer in self.layers:
            x = layer(x, mask[:, None, None, :])
        x = x.float()
        return F.normalize((x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True), dim=-1)


class Side:
    """Questions or texts: their tokens, prefix and calibration."""

    def __init__(self, data: dict[str, np.ndarray], name: str, prefix: int, listed: list[list[int]]) -> None:
        self.basis, self.shift = (torch.tensor(data[f"{name}.{part}"]).cuda() for part in ("basis", "shift"))
        first, last = data["ends"].tolist()
        before = [first, *lists(data, "prefixes")[prefix]]
        self.tokens = [[*before, *ids, last] for ids in listed]

    def embed(self, encoder: Encoder, chosen: list[int]) -> torch.Tensor:
        """Return the calibrated unit vectors of the chosen texts."""
        longest = max(len(self.tokens[i]) for i in chosen)
        ids, mask = np.zeros((len(chosen), longest), np.int64), np.zeros((len(chosen), longest), bool)
        for row, i in enumerate(chosen):
            ids[row, : len(self.tokens[i])], mask[row, : len(self.tokens[i])] = self.tokens[i], True
        with torch.autocast("cuda", torch.bfloat16):
            raw = encoder(torch.from_numpy(ids).cuda(), torch.from_numpy(mask).cuda())
        return F.normalize(raw - (raw @ self.basis.T) @ self.basis - self.shift, dim=-1)

    @torch.no_grad()
    def embed_all(self, encoder: Encoder) -> torch.Tensor:
        encoder.eval()
        order = sorted(range(len(self.tokens)), key=lambda i: len(self.tokens[i]))
        vectors = torch.zeros(len(order), WIDTH, device="cuda")
        for start in range(0, len(order), 512):
            part = order[start : start + 512]
            vectors[torch.tensor(part, device="cuda")] = self.embed(encoder, part)
        return vectors


def lists(data: dict[str, np.ndarray], name: str) -> list[list[int]]:
    ends = data[f"{name}.ends"]
    return [data[f"{name}.tokens"][a:b].tolist() for a, b in pairwise(ends)]


def main() -> None:
    parser = argparse.ArgumentParser(description="Train the query adapter of e5.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--near", type=float, default=NEAR)
    parser.add_argument("--keep", type=float, default=KEEP)
    parser.add_argument("--all", action="store_true", help="train on the held-out vaults and pages too")
    given = parser.parse_args()
    begin = time.time()
    torch.manual_seed(5)
    random.seed(5)
    data = dict(np.load(given.data / "data.npz"))
    described = json.loads((given.data / "data.json").read_text())
    about, asked = described["about"], described["asked"]
    questions = Side(data, "query", 0, lists(data, "questions"))
    texts = Side(data, "passage", 1, lists(data, "texts"))
    fixed = Encoder(data, adapt=False).cuda()
    text_vectors, before = texts.embed_all(fixed), questions.embed_all(fixed)
    groups: dict[str, list[int]] = defaultdict(list)
    for number, (group, _, _) in enumerate(about):
        groups[group].append(number)
    members = {group: torch.tensor(numbers, device="cuda") for group, numbers in groups.items()}

    def rivals(i: int, most: int = 30) -> list[int]:
        """Return the texts of a question's group that are nearest to it and do not answer it."""
        answers, group, besides, kind = asked[i]
        pool = members[group]
        nearest = pool[(text_vectors[pool] @ before[i]).topk(min(len(pool), most + 30)).indices].tolist()
        same = {about[answer][2] for answer in answers}
        kept = [t for t in nearest if about[t][2] not in same and about[t][1] not in besides]
        if answers and kept and not kind.startswith("note"):
            likeness = (
                (text_vectors[torch.tensor(kept, device="cuda")] @ text_vectors[torch.tensor(answers, device="cuda")].T)
                .max(1)
                .values
            )
            kept = [t for t, cosine in zip(kept, likeness.tolist(), strict=True) if cosine < TWINS]
        return kept[:most]

    vaults = sorted({group for group, _, _ in about if group[:1].isalpha() and group[1:3].isdigit()})
    apart = set(vaults[::12])

    def is_held_out(i: int) -> bool:
        answers, group, _, kind = asked[i]
        if kind.startswith("note"):
            return group in apart
        return kind == "docs" and sum(map(ord, about[answers[0]][1].replace("/ko/", "/en/"))) % 8 == 0

    kinds: dict[str, list[int]] = defaultdict(list)
    held_out: dict[str, list[int]] = defaultdict(list)
    for i, (_, _, _, kind) in enumerate(asked):
        (held_out if is_held_out(i) else kinds)[kind].append(i)
        if given.all and is_held_out(i):
            kinds[kind].append(i)
    many = [*kinds["heading"], *kinds["sentence"]]
    few = [*kinds["note"], *kinds["docs"]]
    against = {i: rivals(i) for part in (*kinds.values(), *held_out.values()) for i in part}
    unanswered = [i for i in (*kinds["note-near"], *kinds["docs-near"]) if len(against[i]) >= 8]
    print(
        f"{len(many)} headings and sentences, {len(few)} questions, {len(unanswered)} that nothing answers", flush=True
    )

    encoder = Encoder(data, adapt=True).cuda()
    trained = [p for name, p in encoder.named_parameters() if name.endswith((".a", ".b"))]

    def train(pool: list[int], passes: int, mixed: list[int], near: float) -> None:
        order: list[int] = []
        for _ in range(passes):
            part = pool + random.sample(mixed, min(len(mixed), len(pool) // 2))
            random.shuffle(part)
            order += part
        steps = len(order) // BATCH
        optimiser = torch.optim.AdamW(trained, RATE, weight_decay=0.0)
        plan = lambda step: min(1.0, (step + 1) / (0.1 * steps)) * max(0.02, 1 - step / steps)  # noqa: E731
        schedule = torch.optim.lr_scheduler.LambdaLR(optimiser, plan)
        encoder.train()
        for step in range(steps):
            batch = order[step * BATCH : (step + 1) * BATCH]
            vectors = questions.embed(encoder, batch)
            answers = text_vectors[torch.tensor([random.choice(asked[i][0]) for i in batch], device="cuda")]
            hard = [
                random.sample(against[i], RIVALS)
                if len(against[i]) >= RIVALS
                else random.choices(against[i] or [0], k=RIVALS)
                for i in batch
            ]
            others = (vectors @ answers.T).masked_fill((answers @ answers.T) > TWINS, -9)
            near_texts = (vectors.unsqueeze(1) * text_vectors[torch.tensor(hard, device="cuda")]).sum(-1)
            scores = torch.cat([(vectors * answers).sum(-1, keepdim=True), others, near_texts], 1) / TEMPERATURE
            loss = F.cross_entropy(scores, torch.zeros(len(batch), dtype=torch.long, device="cuda"))
            loss = loss + given.keep * 10 * (1 - (vectors * before[torch.tensor(batch, device="cuda")]).sum(-1)).mean()
            if near and unanswered:
                chosen = random.sample(unanswered, min(48, len(unanswered)))
                vectors = questions.embed(encoder, chosen)
                nearest = text_vectors[torch.tensor([against[i][:8] for i in chosen], device="cuda")]
                largest = 0.04 * (torch.logsumexp((vectors.unsqueeze(1) * nearest).sum(-1) / 0.04, 1) - math.log(2))
                loss = loss + near * 60 * (F.relu(largest - UNRELATED) ** 2).mean()
                loss = (
                    loss + given.keep * 3 * (1 - (vectors * before[torch.tensor(chosen, device="cuda")]).sum(-1)).mean()
                )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimiser.step()
            schedule.step()

    train(many, BULK, [], 0.0)
    train(few, WRITTEN, many, given.near)
    after = questions.embed_all(encoder)
    for kind in ("note", "docs"):
        found = {}
        for name, vectors in (("before", before), ("after", after)):
            ranks = []
            for i in held_out[kind]:
                cosines = text_vectors[torch.tensor([asked[i][0][0], *against[i]], device="cuda")] @ vectors[i]
                ranks.append(1 + int((cosines[1:] >= cosines[0]).sum()))
            found[name] = (np.mean([rank == 1 for rank in ranks]), np.mean([1 / rank for rank in ranks]))
        print(f"{kind}: {len(held_out[kind])} held out, first {found['before'][0]:.3f} -> {found['after'][0]:.3f}, "
              f"MRR {found['before'][1]:.3f} -> {found['after'][1]:.3f}")  # fmt: skip

    def best(vectors: torch.Tensor, i: int) -> float:
        """Return the largest cosine of a question with its answer and its nearest rivals."""
        texts = torch.tensor([*asked[i][0][:1], *against[i][:15]], device="cuda")
        return float((text_vectors[texts] @ vectors[i]).max())

    for name, vectors in (("before", before), ("after", after)):
        yes, no = ([best(vectors, i) for i in held_out[kind]] for kind in ("note", "note-near"))
        auc = np.mean([(y > n) + 0.5 * (y == n) for y in yes for n in no])
        print(
            f"{name}: answered against unanswered, AUC {auc:.3f}; medians {np.median(yes):.3f} and {np.median(no):.3f}"
        )
    print(f"kept: mean cosine {float((before * after).sum(-1).mean()):.3f}; {time.time() - begin:.0f} s")
    given.out.mkdir(parents=True, exist_ok=True)
    arrays = {
        name.removeprefix("layers."): p.detach().half().cpu().numpy()
        for name, p in encoder.named_parameters()
        if name.endswith((".a", ".b"))
    }
    np.savez(given.out / "adapter.npz", **arrays)


if __name__ == "__main__":
    main()
