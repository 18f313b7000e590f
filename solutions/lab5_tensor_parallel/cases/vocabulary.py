"""Cases of embedding and head: mostly of a vocabulary that the ranks do not divide."""

from __future__ import annotations

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_engine

from .sizes import RANKS, flat, listed

# vocabulary, hidden, tokens
_SIZES = ((97, 14, 12), (51, 10, 15), (21, 18, 13))
# ... that they do divide
_EVEN = ((8, 14, 12), (12, 10, 9), (16, 18, 7))
# ... so small that on 4 ranks the last one has none of it, and the one before less than its share.
_FEW = ((5, 14, 11), (5, 10, 8), (5, 18, 7))


def _about(vocabulary: int, hidden: int, tokens: int, en: str = "", zh: str = "") -> Text:
    return Text(
        f"{en}{vocabulary} token ids, hidden {hidden}, {tokens} tokens",
        f"{zh}词表大小 {vocabulary}，hidden {hidden}，{tokens} 个 token",
    )


def _ids(draw: Draw, vocabulary: int, tokens: int) -> torch.Tensor:
    """Ids in random order, the first and the last one of the vocabulary among them."""
    rest = 1 + draw.permutation(vocabulary - 2)[: tokens - 2]
    more = [draw.integer(0, vocabulary - 1) for _ in range(tokens - 2 - len(rest))]
    ids = torch.cat((torch.tensor([0, vocabulary - 1]), rest, torch.tensor(more, dtype=torch.long)))
    return ids[draw.permutation(tokens)]


def _shards(weight: torch.Tensor, ranks: tuple[int, ...]) -> dict[str, torch.Tensor]:
    return {
        f"{world}.{rank}.weight": oracle_engine.vocabulary_shard(weight, rank, world)
        for world in ranks
        for rank in range(world)
    }


def _embedding(
    draw: Draw,
    sizes: tuple[tuple[int, int, int], ...] = _SIZES,
    ranks: tuple[int, ...] = RANKS,
    dtype: torch.dtype = torch.float32,
    en: str = "",
    zh: str = "",
) -> Draft:
    vocabulary, hidden, tokens = draw.pick(sizes)
    weight = draw.normal(vocabulary, hidden).to(dtype)
    weight[0, 0] = 5.0  # far from all others: whoever cuts off what is large is seen
    ids = _ids(draw, vocabulary, tokens)
    tensors = {"ids": ids, "weight": weight, "y": weight[ids], **_shards(weight, ranks)}
    name = str(dtype).removeprefix("torch.")
    about = _about(vocabulary, hidden, tokens, en, zh)
    return draft(about, tensors, sizes=[vocabulary, hidden], dtype=name)


@recipe()
def embedding_alone(draw: Draw) -> Draft:
    """For one rank, which is given the whole weight."""
    return _embedding(draw)


@recipe()
def embedding(draw: Draw) -> Draft:
    return _embedding(draw)


@recipe()
def embedding_loading(draw: Draw) -> Draft:
    """The same for the loader: what it has to make is given to whoever looks up."""
    return _embedding(draw)


@recipe()
def embedding_few(draw: Draw) -> Draft:
    """Fewer ids than the ranks have room for: the last rank holds none."""
    en, zh = "a rank without any id: ", "有一个 rank 没有分到任何编号："
    return _embedding(draw, _FEW, (4,), en=en, zh=zh)


@recipe()
def embedding_few_loading(draw: Draw) -> Draft:
    en, zh = "a rank without any id: ", "有一个 rank 没有分到任何编号："
    return _embedding(draw, _FEW, (4,), en=en, zh=zh)


@recipe()
def embedding_even_loading(draw: Draw) -> Draft:
    """Nothing to round up, and no row without an id."""
    en, zh = "the ranks divide the vocabulary: ", "rank 数整除词表："
    return _embedding(draw, _EVEN, en=en, zh=zh)


@recipe()
def embedding_bfloat16(draw: Draw) -> Draft:
    return _embedding(draw, dtype=torch.bfloat16, en="bfloat16: ", zh="bfloat16：")


def _lm_head(
    draw: Draw,
    sizes: tuple[tuple[int, int, int], ...] = _SIZES,
    ranks: tuple[int, ...] = RANKS,
    dtype: torch.dtype = torch.float32,
    en: str = "",
    zh: str = "",
) -> Draft:
    vocabulary, hidden, _ = draw.pick(sizes)
    lengths = draw.pick(((3, 6, 1), (2, 5), (4, 1, 3)))
    weight = draw.normal(vocabulary, hidden, scale=hidden**-0.5).to(dtype)
    x, cu = draw.normal(sum(lengths), hidden).to(dtype), flat(lengths)["cu"]
    tensors = {"x": x, "cu": cu, "weight": weight, "y": oracle_engine.logits(weight, x, cu)}
    tensors |= _shards(weight, ranks)
    all_lengths = listed(lengths)
    about = Text(
        f"{en}{vocabulary} token ids, hidden {hidden}, sequences of {all_lengths.en} tokens",
        f"{zh}词表大小 {vocabulary}，hidden {hidden}，序列长度为 {all_lengths.zh}",
    )
    name = str(dtype).removeprefix("torch.")
    return draft(about, tensors, sizes=[vocabulary, hidden], dtype=name)


@recipe()
def lm_head(draw: Draw) -> Draft:
    return _lm_head(draw)


@recipe()
def lm_head_few(draw: Draw) -> Draft:
    en, zh = "a rank without any id: ", "有一个 rank 没有分到任何编号："
    return _lm_head(draw, _FEW, (4,), en=en, zh=zh)


@recipe()
def lm_head_bfloat16(draw: Draw) -> Draft:
    return _lm_head(draw, dtype=torch.bfloat16, en="bfloat16: ", zh="bfloat16：")
