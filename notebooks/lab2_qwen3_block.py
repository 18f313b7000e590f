# %% [markdown]
# # Lab 2: the Qwen3 block, in pictures made of numbers
#
# This notebook goes through lab 2 beside the handout (`labs/lab2_qwen3_block/README.md`). It runs
# from the first minute on: cells that need a function you have not written yet say so, kindly, and
# the rest goes on. Write the function in `attention.py` or `mlp.py`, save, and run the cell again:
# each experiment reads your files anew. Before you run a cell, guess what it will print.
#
# 本笔记本配合讲义使用，从头到尾随时可以运行：用到尚未完成的函数时，单元会给出提示并继续。
# 在 `attention.py` 或 `mlp.py` 中写好函数并保存，然后重新运行该单元即可；运行之前，先猜一猜结果。

# %% set-up
import importlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch.nn.functional as F


def find_root() -> Path:
    """The folder that holds ``labs``: this one or one above."""
    for folder in (Path.cwd(), *Path.cwd().parents):
        if (folder / "labs" / "lab2_qwen3_block" / "attention.py").is_file():
            return folder
    raise FileNotFoundError(
        f"no labs/lab2_qwen3_block/attention.py in {Path.cwd()} or above: start Jupyter inside "
        "the course folder / 请在课程文件夹内启动 Jupyter"
    )


ROOT = find_root()
sys.path[:0] = [str(ROOT), str(ROOT / "labs" / "lab2_qwen3_block")]
sys.dont_write_bytecode = True  # an edit within the same second must not meet an old .pyc
torch.set_grad_enabled(False)


def student_code() -> SimpleNamespace:
    """Everything that your two files define, as they are on disk now."""
    importlib.invalidate_caches()
    names: dict[str, Any] = {}
    for module in ("attention", "mlp"):
        sys.modules.pop(module, None)
        names.update(vars(importlib.import_module(module)))
    return SimpleNamespace(**names)


def experiment(work: Callable[[Any], None]) -> Callable[[Any], None]:
    """Run ``work`` on your code at once; where a TODO is still open, say which."""
    torch.manual_seed(0)
    try:
        work(student_code())
    except NotImplementedError as todo:
        print(f"Not written yet: {todo}\nFill it in, save, and run this cell again.")
        print("尚未完成：写好并保存后，重新运行本单元即可。")
    return work


def verdict(right: bool) -> str:
    """The last word of an experiment."""
    return "as expected · 符合预期" if right else "NOT as expected · 与预期不符"


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative error: length of the difference over the length of ``b``."""
    return float((a - b).norm() / b.norm())


def row(x: torch.Tensor) -> str:
    """The numbers of a vector, to four places."""
    return " ".join(f"{value:8.4f}" for value in x.tolist())


# %% [markdown]
# ## 1. Shapes · 形状
#
# `SMALL` has sizes that are all different, so that mixed-up axes show. Mind the last column: the
# heads together are *not* always as wide as the model.
#
# `SMALL` 的各个尺寸互不相同，轴弄混时立刻会暴露。注意最后一列：所有头的总宽度不一定等于模型宽度。

# %%
from labs.given.config import Qwen3Config
from labs.given.norm import RMSNorm


def qwen3(layers: int, hidden: int, heads: int, kv: int, inner: int, tied: bool) -> Qwen3Config:
    """A published dense Qwen3: the sizes that differ; head_dim and vocabulary are common."""
    return Qwen3Config(
        vocab_size=151_936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=128,
        tie_word_embeddings=tied,
    )


MODELS = {
    "0.6B": qwen3(28, 1024, 16, 8, 3072, True),
    "1.7B": qwen3(28, 2048, 16, 8, 6144, True),
    "4B": qwen3(36, 2560, 32, 8, 9728, True),
    "8B": qwen3(36, 4096, 32, 8, 12288, False),
    "14B": qwen3(40, 5120, 40, 8, 17408, False),
    "32B": qwen3(64, 5120, 64, 8, 25600, False),
}
SMALL = Qwen3Config(
    vocab_size=99,
    hidden_size=40,
    intermediate_size=56,
    num_hidden_layers=1,
    num_attention_heads=6,
    num_key_value_heads=2,
    head_dim=16,
)
print("model  hidden  heads/kv  heads x head_dim")
for name, c in {"small": SMALL, **MODELS}.items():
    width = c.num_attention_heads * c.head_dim
    same = "= hidden" if width == c.hidden_size else "is not hidden!"
    heads = f"{c.num_attention_heads}/{c.num_key_value_heads}"
    print(f"{name:5}  {c.hidden_size:6}  {heads:>8}  {width:5} {same}")


# %%
@experiment
def shapes_of_the_attention(student: Any) -> None:
    """The six weights, and nothing else."""
    found = {n: list(t.shape) for n, t in student.Qwen3Attention(SMALL).state_dict().items()}
    for name, shape in found.items():
        print(f"{name:14} {shape}")
    wanted = {"q_proj": [96, 40], "k_proj": [32, 40], "v_proj": [32, 40], "o_proj": [40, 96]}
    wanted |= {"q_norm": [16], "k_norm": [16]}
    print(verdict(found == {f"{name}.weight": shape for name, shape in wanted.items()}))


# %% [markdown]
# ## 2. A quarter turn for every pair · 每一对转四分之一圈
#
# Number $i$ and number $i + d/2$ are the two coordinates of one point. Two quarter turns make a
# half turn, so doing it twice flips every sign.
#
# 第 $i$ 个数与第 $i + d/2$ 个数构成平面上的一个点。转两次四分之一圈，所有符号都会翻转。


# %%
@experiment
def quarter_turns(student: Any) -> None:
    """Once, and twice."""
    x = torch.arange(1.0, 7.0)
    once = student.rotate_half(x)
    twice = student.rotate_half(once)
    print(f"x      {x.tolist()}\nonce   {once.tolist()}\ntwice  {twice.tolist()}")
    print(verdict(once.tolist() == [-4.0, -5.0, -6.0, 1.0, 2.0, 3.0] and torch.equal(twice, -x)))


# %% [markdown]
# ## 3. The tables · 角度表
#
# Pair $i$ turns by $\theta^{-2i/d}$ radians per token: the first pair like the hand of a
# stopwatch, the last one hardly at all. Raising $\theta$ slows the slow pairs down further.
#
# 第 $i$ 对每个 token 转 $\theta^{-2i/d}$ 弧度：第一对像秒针，最后一对几乎不动。
# 增大 $\theta$ 会让慢的那些对更慢。

# %%
for theta in (1e4, 1e6):
    print(f"theta {theta:9,.0f}, head_dim 128: tokens for one full turn")
    for pair in (0, 16, 32, 48, 63):
        print(f"   pair {pair:2}: {2 * math.pi * theta ** (pair / 64):13,.1f}")


# %%
@experiment
def tables_by_hand(student: Any) -> None:
    """Position 3 with head_dim 8, against the calculator."""
    config = Qwen3Config(9, 8, 9, 1, 1, 1, head_dim=8)
    cos, sin = student.RotaryEmbedding(config)(torch.tensor([0, 3]))
    angles = [3 * speed for speed in (1, 10**-1.5, 10**-3, 10**-4.5)]
    print("cos at position 0:", [round(v, 4) for v in cos[0].tolist()])
    print("cos at position 3:", [round(v, 4) for v in cos[1].tolist()])
    print("sin at position 3:", [round(v, 4) for v in sin[1].tolist()])
    by_hand = torch.tensor([[math.cos(a) for a in angles] * 2, [math.sin(a) for a in angles] * 2])
    print("shape", list(cos.shape), cos.dtype)
    print(verdict(distance(torch.stack((cos[1], sin[1])), by_hand) < 1e-6))


# %% [markdown]
# Why float32? bfloat16 keeps 8 significant bits, so beyond 256 not every whole number exists. A
# position that is off by one turns the first pair by a whole radian.
#
# 为什么用 float32？bfloat16 只有 8 位有效位，256 以上的整数无法全部表示；
# 位置差 1，第一对就差 1 弧度。

# %%
positions = torch.tensor([255, 256, 257, 258, 301, 1001])
print("position ", positions.tolist())
print("bfloat16 ", positions.bfloat16().int().tolist())

# %% [markdown]
# ## 4. Rotation: only the distance counts · 旋转：只与距离有关
#
# First the quarter turn again, now by tables. Then a walk: the pairs of $q = [1, 1, 0, 0]$ are the
# points $(1, 0)$ and $(1, 0)$; watch the first one go around the circle while the second one hardly
# moves.
#
# 先用角度表再做一次四分之一圈。然后看 $q = [1, 1, 0, 0]$：两对都是点 $(1, 0)$，
# 第一对沿圆周快速移动，第二对几乎不动。


# %%
@experiment
def a_quarter_turn_by_tables(student: Any) -> None:
    """cos 0 and sin 1: the tables of a quarter turn. The heads of q and k differ in number."""
    cos, sin = torch.zeros(1, 4), torch.ones(1, 4)
    one_head = torch.arange(1.0, 5.0).view(1, 1, 1, 4)
    q, k = student.apply_rotary_pos_emb(one_head.expand(1, 6, 1, 4), one_head, cos, sin)
    print("before", one_head.flatten().tolist(), " after", k.flatten().tolist())
    right = torch.tensor([-3.0, -4.0, 1.0, 2.0])
    print(verdict(torch.equal(q, right.expand(1, 6, 1, 4)) and torch.equal(k.flatten(), right)))


# %%
TINY = Qwen3Config(9, 4, 9, 1, 1, 1, head_dim=4)  # speeds 1 and 0.001


def rotated(student: Any, x: list[float], position: int) -> torch.Tensor:
    """One head of one token, ``[4]``, at ``position``, by your functions."""
    head = torch.tensor(x).view(1, 1, 1, 4)
    tables = student.RotaryEmbedding(TINY)(torch.tensor([position]))
    turned: torch.Tensor = student.apply_rotary_pos_emb(head, head, *tables)[0]
    return turned.flatten()


@experiment
def walk_around_the_circle(student: Any) -> None:
    """Two pairs, nine positions; the lengths stay 1."""
    print("position    pair 0            pair 1            lengths")
    lengths = []
    for position in range(9):
        a, b, c, d = rotated(student, [1.0, 1.0, 0.0, 0.0], position).tolist()
        lengths += [math.hypot(a, c), math.hypot(b, d)]
        points = f"({a:6.3f}, {c:6.3f})  ({b:6.3f}, {d:6.3f})"
        print(f"{position:8}    {points}  {lengths[-2]:.3f} {lengths[-1]:.3f}")
    print(verdict(all(abs(length - 1) < 1e-5 for length in lengths)))


# %%
@experiment
def only_the_distance_counts(student: Any) -> None:
    """The same distance gives the same score; the other direction does not."""
    scores = {}
    for m, n in ((5, 3), (9, 7), (1002, 1000), (3, 5)):
        query = rotated(student, [1.0, 2.0, 3.0, 4.0], m)
        scores[m, n] = (query @ rotated(student, [2.0, 0.0, 1.0, 1.0], n)).item()
        print(f"query at {m:4}, key at {n:4}: distance {m - n:2}, score {scores[m, n]:8.4f}")
    same = abs(scores[5, 3] - scores[9, 7]) < 1e-3 and abs(scores[5, 3] - scores[1002, 1000]) < 1e-3
    print(verdict(same and abs(scores[5, 3] + 2.6232) < 1e-3 and abs(scores[3, 5] - 6.4617) < 1e-3))


# %% [markdown]
# ## 5. Sharing key/value heads · 共享键值头
#
# Query heads 0, 1, 2 were trained with key/value head 0, and 3, 4, 5 with head 1. Repeating each
# head in a row keeps these families together; tiling the list tears them apart, in the same shape.
#
# 查询头 0、1、2 对应键值头 0，3、4、5 对应键值头 1。
# 逐个重复能保持这种对应；整体平铺形状相同，却会错配。

# %%
kv_heads = torch.arange(2)
print("query head     ", list(range(6)))
print("in a row, right", kv_heads.repeat_interleave(3).tolist())
print("tiled, wrong   ", kv_heads.repeat(3).tolist())


# %%
@experiment
def who_reads_whom(student: Any) -> None:
    """Every key/value head holds its own number; your function shows where it went."""
    numbered = torch.arange(2.0).view(1, 2, 1, 1).expand(4, 2, 11, 16)
    out = student.repeat_kv(numbered, 3)
    print("shape ", list(out.shape), "\nheads ", out[0, :, 0, 0].int().tolist())
    print(verdict(out[0, :, 0, 0].tolist() == [0, 0, 0, 1, 1, 1]))


# %% [markdown]
# ## 6. Who may look at whom · 因果掩码
#
# Row: query. Column: key. A token sees itself and what came before. What is blocked must be blocked
# *before* the softmax and by a huge negative number: a score of 0 still takes its share.
#
# 行是查询，列是键：每个 token 能看到自己和之前的内容。
# 屏蔽要在 softmax 之前进行，并加上绝对值极大的负数；把分数置 0 并不能屏蔽。

# %%
print("    " + " ".join(str(key) for key in range(5)))
for query in range(5):
    print(f"{query}   " + " ".join("x" if key <= query else "." for key in range(5)))

scores = torch.tensor([1.0, 0.0, 2.0])  # of token 1, which must not see token 2
visible = torch.tensor([1.0, 1.0, 0.0])
print("\nno mask        ", row(scores.softmax(-1)))
print("multiplied by 0", row((scores * visible).softmax(-1)), "<- token 2 still gets its share")
print("-10 added      ", row((scores - 10 * (1 - visible)).softmax(-1)), "<- nearly, but it leaks")
lowest = torch.finfo(scores.dtype).min
print("finfo.min added", row((scores + (1 - visible) * lowest).softmax(-1)), "<- blocked")


# %% [markdown]
# Now the picture of *your* attention: change one token, and see which outputs move.
#
# 下面是*你的*注意力的图：改动一个 token，看哪些输出随之变化。


# %%
@experiment
def picture_of_your_mask(student: Any) -> None:
    """Rows: outputs. Columns: the input token that was changed."""
    layer = student.Qwen3Attention(SMALL)
    x = torch.randn(1, 6, 40)
    moved = []
    for token in range(6):
        other = x.clone()
        other[:, token] += 1.0
        moved.append((layer(other) - layer(x)).abs().amax(-1)[0] > 1e-6)
    picture = torch.stack(moved, dim=1)  # [output, changed input]
    for row in picture.tolist():
        print("   ", " ".join("x" if cell else "." for cell in row))
    print(verdict(torch.equal(picture, torch.ones(6, 6).tril().bool())))


# %% [markdown]
# ## 7. QK-norm · 查询与键的归一化
#
# The norm forgets how long a query was: ten times the query, the same result. So the scores cannot
# run away, however large the weights of `q_proj` grow.
#
# 归一化会忘掉查询向量的长度：放大十倍，结果不变。因此无论 `q_proj` 的权重多大，分数都不会失控。

# %%
norm = RMSNorm(4)
q = torch.tensor([1.0, 2.0, 3.0, 4.0])
print("norm(q)     ", row(norm(q)), "  squared length", round(norm(q).square().sum().item(), 4))
print("norm(10 q)  ", row(norm(10 * q)))
print("bound on a scaled score with d = 128:", round(math.sqrt(128), 3))


# %%
@experiment
def ten_times_the_weights(student: Any) -> None:
    """q and k are normed, v is not."""
    right = {"q_proj": 1, "k_proj": 1, "v_proj": 10, "o_proj": 10}
    layer = student.Qwen3Attention(SMALL)
    x = torch.randn(4, 11, 40)
    before = layer(x)
    ok = True
    for name, factor in right.items():
        weight = getattr(layer, name).weight
        weight.mul_(10)
        after = layer(x)
        weight.div_(10)
        print(f"{name} x 10: output grows {(after.norm() / before.norm()).item():7.4f} times")
        ok &= distance(after, factor * before) < 1e-3
    print(verdict(ok))


# %% [markdown]
# Norm first or rotation first? With equal norm weights nobody can tell, and a fresh model has only
# ones. With trained weights it is another vector: easy to get wrong, and hard to see.
#
# 先归一化还是先旋转？权重全为 1 时看不出差别；换成训练过的权重，结果就不同了：
# 容易写错，又难以发现。


# %%
@experiment
def which_comes_first(student: Any) -> None:
    """Both orders, with equal and with spread norm weights."""
    differs = []
    for weight in ([1.0, 1.0, 1.0, 1.0], [1.0, 0.5, 2.0, 3.0]):
        norm = RMSNorm(4)
        norm.weight.copy_(torch.tensor(weight))
        first = rotated(student, norm(q).tolist(), 2)
        last = norm(rotated(student, q.tolist(), 2))
        print(f"norm weight {weight}")
        print(f"   norm, then rotate {row(first)}\n   rotate, then norm {row(last)}")
        differs.append(distance(last, first) > 1e-3)
    print(verdict(differs == [False, True]))


# %% [markdown]
# ## 8. The gate · 门控
#
# SiLU lets large positive numbers through, stops large negative ones, and dips below zero between.
#
# SiLU 放行大的正数，挡住大的负数，中间略低于零。

# %%
z = torch.tensor([-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0])
for label, values in {
    "z": z,
    "sigmoid": z.sigmoid(),
    "silu": F.silu(z),
    "gelu": F.gelu(z),
    "relu": F.relu(z),
}.items():
    print(f"{label:8}", row(values))


# %%
@experiment
def a_gate_of_one_number(student: Any) -> None:
    """Hidden and intermediate size 1: gate -2, up 0.5, down 1."""
    layer = student.Qwen3MLP(Qwen3Config(9, 1, 1, 1, 1, 1, head_dim=2))
    for name, value in {"gate_proj": -2.0, "up_proj": 0.5, "down_proj": 1.0}.items():
        getattr(layer, name).weight.fill_(value)
    got = layer(torch.ones(1)).item()
    print(f"yours              {got:.4f}\nsilu(-2) * 0.5     -0.1192   <- right")
    print("-2 * silu(0.5)     -0.6225   <- the branches swapped\nsilu(-2 * 0.5)     -0.2689")
    print("gelu(-2) * 0.5     -0.0228")
    print(verdict(abs(got + 0.1192) < 1e-4))


# %%
@experiment
def gate_and_up_are_not_alike(student: Any) -> None:
    """Swapping the weights must change the output; a shut gate must silence it."""
    layer = student.Qwen3MLP(SMALL)
    x = torch.randn(4, 11, 40)
    before = layer(x)
    gate, up = layer.gate_proj.weight.clone(), layer.up_proj.weight.clone()
    layer.gate_proj.weight.copy_(up)
    layer.up_proj.weight.copy_(gate)
    swapped = distance(layer(x), before)
    layer.gate_proj.weight.zero_()
    shut = layer(x).abs().max().item()
    print(f"gate and up swapped: the output changes by {swapped:.2f} of its length")
    print(f"gate shut (weight 0): largest output {shut}")
    print(verdict(swapped > 0.1 and shut == 0))


# %% [markdown]
# ## 9. What a model costs · 模型的开销
#
# Where do the 8.19 billion parameters of Qwen3-8B sit? Guess the share of the MLP first.
#
# Qwen3-8B 的 81.9 亿参数都在哪里？先猜一猜 MLP 占多少。


# %%
@experiment
def parameters(student: Any) -> None:
    """Your count against the published models."""
    counts = student.count_parameters(MODELS["8B"])
    for key, value in counts.items():
        bar = "#" * round(40 * value / 8_190_735_360)
        print(f"{key:10} {value:14,} {bar if key != 'total' else ''}".rstrip())
    right = {"0.6B": 596_049_920, "1.7B": 1_720_574_976, "4B": 4_022_468_096}
    right |= {"8B": 8_190_735_360, "14B": 14_768_307_200, "32B": 32_762_123_264}
    print()
    ok = True
    for name, total in right.items():
        yours = student.count_parameters(MODELS[name])["total"]
        ok &= yours == total
        print(f"{name:5} {yours:14,}  off by {yours - total:,}")
    print(verdict(ok))


# %%
@experiment
def memory_of_the_weights(student: Any) -> None:
    """Bytes, gigabytes (10^9) and gibibytes (2^30) are three different numbers."""
    for dtype in ("float32", "bfloat16"):
        size = student.weight_bytes(MODELS["8B"], dtype)
        print(f"8B in {dtype:8}: {size:14,} bytes = {size / 1e9:.2f} GB = {size / 2**30:.2f} GiB")
    print(verdict(student.weight_bytes(MODELS["8B"], "bfloat16") == 16_381_470_720))


# %%
@experiment
def memory_of_the_cache(student: Any) -> None:
    """At which length do four conversations need more memory than the weights?"""
    for tokens in (1, 1_000, 8_192, 32_768):
        size = student.kv_cache_bytes(MODELS["8B"], tokens, 4, "bfloat16")
        print(f"8B, 4 sequences of {tokens:6,} tokens: {size / 2**30:8.4f} GiB")
    one = [student.kv_cache_bytes(MODELS[name], 1, 1, "bfloat16") for name in ("0.6B", "4B", "8B")]
    print("bytes per token for 0.6B, 4B, 8B:", one)
    print(verdict(one == [114_688, 147_456, 147_456]))


# %% [markdown]
# ## 10. And now? · 接下来
#
# Everything as expected? These experiments are not the checks: run `make test LAB=2`, and when all
# of it passes, `make chat LAB=2 PROMPT="Call me"`. Then try to break it: swap norm and rotation on
# purpose, and see which of the pictures above notices, and which does not.
#
# 全部符合预期？这些实验并不等于评分：请运行 `make test LAB=2`，全部通过后再运行
# `make chat LAB=2 PROMPT="Call me"`。然后试着故意改错，看看上面哪些图能发现，哪些发现不了。
