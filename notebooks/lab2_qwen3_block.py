# %% [markdown]
# # Lab 2: the Qwen3 block, in pictures · 实验 2：看得见的 Qwen3 模块
#
# This notebook accompanies the handout of lab 2 (`labs/lab2_qwen3_block/README.md`). You can run it
# from the start: a cell that needs a function you have not written yet says so, and the rest
# carries on. Write the function in `attention.py` or `mlp.py`, save, and run the cell again: every
# cell reloads your files. Before you run a cell, guess what it will show.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 在 `attention.py` 或 `mlp.py` 中写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。
# 运行之前，先猜一猜结果。

# %% set-up
import copy
import math
import sys
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code

plt.rcParams["figure.constrained_layout.use"] = True


def distance(a: torch.Tensor, b: torch.Tensor) -> float:
    """Relative error: length of the difference over the length of ``b``."""
    return float((a - b).norm() / b.norm())


def row(x: torch.Tensor) -> str:
    """The numbers of a vector, to four places."""
    return " ".join(f"{value:8.4f}" for value in x.tolist())


# %% [markdown]
# ## 1. Shapes · 形状
#
# All sizes in `SMALL` are different, so that mixed-up axes show. Look at the last column: the heads
# together are *not* always as wide as the model.
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
with your_code("lab2") as mine:
    # The six weights, and nothing else.
    found = {n: list(t.shape) for n, t in mine.Qwen3Attention(SMALL).state_dict().items()}
    for name, shape in found.items():
        print(f"{name:14} {shape}")
    wanted = {"q_proj": [96, 40], "k_proj": [32, 40], "v_proj": [32, 40], "o_proj": [40, 96]}
    wanted |= {"q_norm": [16], "k_norm": [16]}
    print(verdict(found == {f"{name}.weight": shape for name, shape in wanted.items()}))


# %% [markdown]
# ## 2. A quarter turn for every pair · 每一对转四分之一圈
#
# Numbers $i$ and $i + d/2$ are the two coordinates of one point. Two quarter turns make a half
# turn, so doing it twice flips every sign.
#
# 第 $i$ 个数与第 $i + d/2$ 个数是平面上一个点的两个坐标。转两次四分之一圈就是半圈，所有的数都变号。


# %%
with your_code("lab2") as mine:
    # Once, and twice.
    x = torch.arange(1.0, 7.0)
    once = mine.rotate_half(x)
    twice = mine.rotate_half(once)
    print(f"x      {x.tolist()}\nonce   {once.tolist()}\ntwice  {twice.tolist()}")
    print(verdict(once.tolist() == [-4.0, -5.0, -6.0, 1.0, 2.0, 3.0] and torch.equal(twice, -x)))


# %% [markdown]
# ## 3. The tables · 角度表
#
# Pair $i$ rotates by $\theta^{-2i/d}$ radians per token, its frequency: the first pair like the
# hand of a stopwatch, the last one hardly at all. Raising $\theta$ lowers the low frequencies
# further.
#
# 每过一个 token，第 $i$ 对转 $\theta^{-2i/d}$ 弧度，这就是它的频率：第一对像秒针，
# 最后一对几乎不动。增大 $\theta$，低的频率会更低。

# %%
for theta in (1e4, 1e6):
    print(f"theta {theta:9,.0f}, head_dim 128: tokens for one full turn")
    for pair in (0, 16, 32, 48, 63):
        print(f"   pair {pair:2}: {2 * math.pi * theta ** (pair / 64):13,.1f}")


# %%
with your_code("lab2") as mine:
    # Position 3 with head_dim 8, against the calculator.
    config = Qwen3Config(9, 8, 9, 1, 1, 1, head_dim=8)
    cos, sin = mine.RotaryEmbedding(config)(torch.tensor([0, 3]))
    angles = [3 * frequency for frequency in (1, 10**-1.5, 10**-3, 10**-4.5)]
    print("cos at position 0:", [round(v, 4) for v in cos[0].tolist()])
    print("cos at position 3:", [round(v, 4) for v in cos[1].tolist()])
    print("sin at position 3:", [round(v, 4) for v in sin[1].tolist()])
    by_hand = torch.tensor([[math.cos(a) for a in angles] * 2, [math.sin(a) for a in angles] * 2])
    print("shape", list(cos.shape), cos.dtype)
    print(verdict(distance(torch.stack((cos[1], sin[1])), by_hand) < 1e-6))


# %% [markdown]
# Why float32? bfloat16 keeps 8 significant bits, so beyond 256 it cannot hold every whole number. A
# position that is off by one puts the first pair off by a whole radian.
#
# 为什么用 float32？bfloat16 只有 8 位有效位，256 以上的整数无法全部表示；位置差 1，
# 第一对就差 1 弧度。

# %%
positions = torch.tensor([255, 256, 257, 258, 301, 1001])
print("position ", positions.tolist())
print("bfloat16 ", positions.bfloat16().int().tolist())

# %% [markdown]
# ## 4. Rotation: only the distance counts · 旋转：只与距离有关
#
# First the quarter turn again, now with tables. Then a walk: both pairs of $q = [1, 1, 0, 0]$ are
# the point $(1, 0)$; watch the first one go around the circle while the second one hardly moves.
#
# 先用角度表再做一次四分之一圈。然后看 $q = [1, 1, 0, 0]$：两对都是点 $(1, 0)$，
# 第一对沿圆周快速移动，第二对几乎不动。


# %%
with your_code("lab2") as mine:
    # cos 0 and sin 1: the tables of a quarter turn. The heads of q and k differ in number.
    cos, sin = torch.zeros(1, 4), torch.ones(1, 4)
    one_head = torch.arange(1.0, 5.0).view(1, 1, 1, 4)
    q, k = mine.apply_rotary_pos_emb(one_head.expand(1, 6, 1, 4), one_head, cos, sin)
    print("before", one_head.flatten().tolist(), " after", k.flatten().tolist())
    right = torch.tensor([-3.0, -4.0, 1.0, 2.0])
    print(verdict(torch.equal(q, right.expand(1, 6, 1, 4)) and torch.equal(k.flatten(), right)))


# %%
TINY = Qwen3Config(9, 4, 9, 1, 1, 1, head_dim=4)  # frequencies 1 and 0.001


def rotated(mine, x: list[float], position: int) -> torch.Tensor:
    """One head of one token, ``[4]``, at ``position``, by your functions."""
    head = torch.tensor(x).view(1, 1, 1, 4)
    tables = mine.RotaryEmbedding(TINY)(torch.tensor([position]))
    return mine.apply_rotary_pos_emb(head, head, *tables)[0].flatten()


with your_code("lab2") as mine:
    # Two pairs, nine positions; the lengths stay 1.
    walk = torch.stack([rotated(mine, [1.0, 1.0, 0.0, 0.0], place) for place in range(9)])  # [9, 4]
    figure, grid = plt.subplots(1, 2, figsize=(7, 3.6))
    for pair, axes in enumerate(grid):
        points = walk[:, [pair, pair + 2]]  # [positions, 2]
        axes.plot(*points.T, ":", color="grey")
        axes.scatter(*points.T, c=range(9), cmap="viridis", zorder=2)
        for place, (across, up) in enumerate(points.tolist()):
            if pair == 0:
                axes.annotate(str(place), (1.14 * across, 1.14 * up), ha="center", va="center")
        axes.set(title=f"pair {pair}: positions 0 to 8", xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))
        axes.set_aspect("equal")
    plt.show()
    lengths = walk.view(9, 2, 2).norm(dim=1)  # [positions, pairs]
    print(verdict(bool((lengths - 1).abs().max() < 1e-5) and walk[1, 2].item() > 0.8))

# %%
with your_code("lab2") as mine:
    # The same distance gives the same score; the other direction does not.
    scores = {}
    for m, n in ((5, 3), (9, 7), (1002, 1000), (3, 5)):
        query = rotated(mine, [1.0, 2.0, 3.0, 4.0], m)
        scores[m, n] = (query @ rotated(mine, [2.0, 0.0, 1.0, 1.0], n)).item()
        print(f"query at {m:4}, key at {n:4}: distance {m - n:2}, score {scores[m, n]:8.4f}")
    same = abs(scores[5, 3] - scores[9, 7]) < 1e-3 and abs(scores[5, 3] - scores[1002, 1000]) < 1e-3
    print(verdict(same and abs(scores[5, 3] + 2.6232) < 1e-3 and abs(scores[3, 5] - 6.4617) < 1e-3))


# %% [markdown]
# All pairs of positions at once: a query at $m$, a key at $n$, the same two vectors everywhere.
# With rotation, the picture is made of diagonals: the score is a function of $m - n$. Next to it is
# what happens if a position vector is added instead, as the first transformers did: no diagonals.
#
# 一次看所有的位置组合：查询在 $m$，键在 $n$，用的都是同样的两个向量。旋转后，图由对角线构成：
# 分数只是 $m - n$ 的函数。旁边是早期 Transformer 的做法，即加上位置向量：没有对角线。

# %%
with your_code("lab2") as mine:
    config = Qwen3Config(9, 4, 9, 1, 1, 1, head_dim=32, rope_theta=100.0)
    query, key = torch.randn(2, 32).unbind(0)
    cos, sin = mine.RotaryEmbedding(config)(torch.arange(48))  # [48, 32] each
    q = query.expand(1, 1, 48, 32)
    k = key.expand(1, 1, 48, 32)
    turned_q, turned_k = mine.apply_rotary_pos_emb(q, k, cos, sin)
    waves = torch.cat((cos, sin), dim=-1)[:, ::2]  # [48, 32]: some position vectors to add
    tables = {
        "rotated (yours)": turned_q[0, 0] @ turned_k[0, 0].T,  # [m, n]
        "position vector added": (query + waves) @ (key + waves).T,
    }
    figure, grid = plt.subplots(1, 2, figsize=(9, 4))
    for axes, (name, table) in zip(grid, tables.items(), strict=True):
        axes.imshow(table, cmap="RdBu")
        axes.set(title=name, xlabel="position n of the key", ylabel="position m of the query")
    plt.show()
    shifted = tables["rotated (yours)"]
    moved = (shifted[1:, 1:] - shifted[:-1, :-1]).abs().max()  # one step down a diagonal
    print(verdict(bool(moved < 1e-4) and distance(shifted[0], shifted[5]) > 0.1))

# %% [markdown]
# ## 5. Sharing key/value heads · 共享键值头
#
# Query heads 0, 1, 2 were trained with key/value head 0, and 3, 4, 5 with head 1. Repeating each
# head in a row keeps these groups together; tiling the list tears them apart, with the same shape.
#
# 查询头 0、1、2 对应键值头 0，3、4、5 对应键值头 1。每个头连续重复，能保持这种对应；整体平铺，
# 形状相同，却会配错。

# %%
kv_heads = torch.arange(2)
print("query head     ", list(range(6)))
print("in a row, right", kv_heads.repeat_interleave(3).tolist())
print("tiled, wrong   ", kv_heads.repeat(3).tolist())

# %%
with your_code("lab2") as mine:
    # Every key/value head holds its own number; your function shows where it went.
    figure, grid = plt.subplots(len(MODELS), 1, figsize=(9, 4.6))
    in_a_row = True
    for axes, (name, c) in zip(grid, MODELS.items(), strict=True):
        kv, group = c.num_key_value_heads, c.num_attention_heads // c.num_key_value_heads
        numbered = torch.arange(float(kv)).view(1, kv, 1, 1).expand(4, kv, 11, 16)
        read = mine.repeat_kv(numbered, group)[0, :, 0, 0]  # [heads]: the kv head of each
        axes.imshow(read[None], cmap="tab10", aspect="auto", vmin=0, vmax=9)
        axes.set_ylabel(f"{name}  ", rotation=0, ha="right", va="center")
        axes.set(xticks=range(0, len(read), 4), yticks=[])
        in_a_row &= read.tolist() == [head // group for head in range(kv * group)]
    figure.suptitle("query heads; a colour is the key/value head they read")
    plt.show()
    print(verdict(in_a_row))

# %% [markdown]
# ## 6. The causal mask · 因果掩码
#
# Rows are queries, columns are keys. A token sees itself and what came before. Scores must be
# blocked *before* the softmax, with a huge negative number: a score of 0 still takes its share.
#
# 行是查询，列是键：每个 token 能看到自己和之前的内容。屏蔽要在 softmax *之前*进行，
# 方法是加上一个绝对值极大的负数；把分数置 0 并不能屏蔽，它仍会分走一份权重。

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
# Now a picture of *your* attention: change one token, and see which outputs change.
#
# 下面是*你的*注意力的图：改动一个 token，看哪些输出随之变化。


# %%
with your_code("lab2") as mine:
    layer = mine.Qwen3Attention(SMALL)
    x = torch.randn(1, 6, 40)
    moved = []
    for token in range(6):
        other = x.clone()
        other[:, token] += 1.0
        moved.append((layer(other) - layer(x)).norm(dim=-1)[0])
    picture = torch.stack(moved, dim=1)  # [output, changed input]
    plt.figure(figsize=(3.6, 3.4))
    plt.imshow(picture, cmap="magma")
    plt.xlabel("changed token")
    plt.ylabel("output")
    plt.show()
    print(verdict(torch.equal(picture > 1e-6, torch.ones(6, 6).tril().bool())))

# %% [markdown]
# ### Maps of trained heads · 训练好的头在看什么
#
# The tiny checkpoint is a trained Qwen3. What do its six heads look at? Your layer returns mixtures
# of values, not weights, so we use the *values as labels*: with a different `v_proj` and `o_proj`,
# the value of token $j$ is a 1 in place $j$, and the output of a head is its row of weights.
#
# 微型检查点是训练好的 Qwen3。它的六个头在看什么？你的层返回的是值的混合，不是权重；
# 所以我们*把值当作标签*：换掉 `v_proj` 和 `o_proj`，让第 $j$ 个 token 的值在第 $j$ 位是 1，
# 这样一个头的输出就是它的那一行权重。

# %%
from labs.given.checkpoint import load_model

FOLDER = ROOT / "labs" / "given" / "tiny_qwen3"
tokenizer = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


def maps(layer, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    """Attention weights ``[6, T, T]`` of your layer on ``x`` ``[1, T, 160]``; T is at most 32."""
    layer, tokens = copy.deepcopy(layer), x.shape[1]
    label = torch.zeros(32, 160)  # label @ x[t] is 1 at place t, and 0 elsewhere
    label[:tokens] = torch.linalg.pinv(x[0]).T
    layer.v_proj.weight.copy_(label.repeat(3, 1))  # the same in all 3 kv heads
    weights = []
    for head in range(6):
        layer.o_proj.weight.zero_()
        layer.o_proj.weight[:tokens, 32 * head : 32 * head + tokens] = torch.eye(tokens)
        weights.append(layer(x, attention_mask=mask)[0, :, :tokens])  # [T, T]
    return torch.stack(weights)


def inputs_of(model, ids: list[int]) -> list[torch.Tensor]:
    """What the attention of every layer is given for a text: ``[1, T, 160]`` each."""
    seen = []
    for layer in model.model.layers:
        layer.input_layernorm.register_forward_hook(lambda *call: seen.append(call[-1]))
    model(torch.tensor([ids]))
    return seen


with your_code("lab2") as mine:
    model = load_model(FOLDER, mine.Qwen3Attention, mine.Qwen3MLP)
    text = tokenizer.encode("He saw the white whale, and then the whale saw him.")
    words = [piece.replace("Ġ", "") for piece in text.tokens]
    tokens, number = len(words), 2
    x = inputs_of(model, text.ids)[number]
    both = {"causal": None, "no mask": torch.zeros(1, 1, tokens, tokens)}  # 0: may look
    figure, lines = plt.subplots(2, 6, figsize=(16, 6.2), sharex=True, sharey=True)
    for line, (name, mask) in zip(lines, both.items(), strict=True):
        weights = maps(model.model.layers[number].self_attn, x, mask)  # [heads, T, T]
        for head, axes in enumerate(line):
            axes.imshow(weights[head], cmap="viridis", vmin=0, vmax=1)
            axes.set_title(f"layer {number}, head {head}, {name}")
            axes.set_xticks(range(tokens), words, rotation=90)
            axes.set_yticks(range(tokens), words)
    plt.show()
    rows = weights.sum(dim=-1)
    print(verdict(torch.allclose(rows, torch.ones_like(rows), atol=1e-3)))

# %% [markdown]
# Each head has its own habits: one looks at nearby tokens, another keeps coming back to a few.
# Without the mask they also look ahead, which they were never trained to do. Change `number` and
# the text.
#
# 每个头各有习惯：有的看邻近的 token，有的总是回头看少数几个 token。去掉掩码，
# 它们也会看后面的 token，而训练时从未这样做过。改一改 `number` 和文本试试。

# %% [markdown]
# ## 7. QK-norm · 查询与键的归一化
#
# The norm removes the length of a query: a query ten times as long gives the same result. So the
# scores cannot run away, however large the weights of `q_proj` grow.
#
# 归一化会去掉查询向量的长度：放大十倍，结果不变。因此无论 `q_proj` 的权重多大，分数都不会失控。

# %%
norm = RMSNorm(4)
q = torch.tensor([1.0, 2.0, 3.0, 4.0])
print("norm(q)     ", row(norm(q)), "  squared length", round(norm(q).square().sum().item(), 4))
print("norm(10 q)  ", row(norm(10 * q)))
print("bound on a scaled score with d = 128:", round(math.sqrt(128), 3))


# %%
with your_code("lab2") as mine:
    # q and k are normalised, v is not.
    right = {"q_proj": 1, "k_proj": 1, "v_proj": 10, "o_proj": 10}
    layer = mine.Qwen3Attention(SMALL)
    x = torch.randn(4, 11, 40)
    before = layer(x)
    ok = True
    for name, factor in right.items():
        weight = getattr(layer, name).weight
        weight.mul_(10)
        after = layer(x)
        weight.div_(10)
        print(f"{name} x 10: output x {(after.norm() / before.norm()).item():7.4f}")
        ok &= distance(after, factor * before) < 1e-3
    print(verdict(ok))


# %% [markdown]
# Norm first or rotation first? With equal norm weights there is no difference, and a new model has
# only ones. With trained weights the result is another vector: easy to get wrong, and hard to
# notice.
#
# 先归一化还是先旋转？权重全为 1 时看不出差别；换成训练过的权重，结果就不同了：容易写错，
# 又难以发现。


# %%
with your_code("lab2") as mine:
    # Both orders, with equal and with spread norm weights.
    differs = []
    for weight in ([1.0, 1.0, 1.0, 1.0], [1.0, 0.5, 2.0, 3.0]):
        norm = RMSNorm(4)
        norm.weight.copy_(torch.tensor(weight))
        first = rotated(mine, norm(q).tolist(), 2)
        last = norm(rotated(mine, q.tolist(), 2))
        print(f"norm weight {weight}")
        print(f"   norm, then rotate {row(first)}\n   rotate, then norm {row(last)}")
        differs.append(distance(last, first) > 1e-3)
    print(verdict(differs == [False, True]))


# %% [markdown]
# ## 8. The gate · 门控
#
# SiLU lets large positive numbers through, stops large negative ones, and dips below zero in
# between.
#
# SiLU 放行大的正数，把大的负数压到接近零，中间略低于零。

# %%
z = torch.linspace(-5, 5, 200)
plt.figure(figsize=(6, 3))
for name, curve in {
    "sigmoid": torch.sigmoid(z),
    "silu": F.silu(z),
    "gelu": F.gelu(z),
    "relu": F.relu(z),
}.items():
    plt.plot(z, curve, label=name)
plt.ylim(-0.5, 3)
plt.axhline(0, color="black", linewidth=0.5)
plt.legend()
plt.show()


# %%
with your_code("lab2") as mine:
    # Hidden and intermediate size 1: gate -2, up 0.5, down 1.
    layer = mine.Qwen3MLP(Qwen3Config(9, 1, 1, 1, 1, 1, head_dim=2))
    for name, value in {"gate_proj": -2.0, "up_proj": 0.5, "down_proj": 1.0}.items():
        getattr(layer, name).weight.fill_(value)
    got = layer(torch.ones(1)).item()
    print(f"yours              {got:.4f}\nsilu(-2) * 0.5     -0.1192   <- right")
    print("-2 * silu(0.5)     -0.6225   <- the branches swapped\nsilu(-2 * 0.5)     -0.2689")
    print("gelu(-2) * 0.5     -0.0228")
    print(verdict(abs(got + 0.1192) < 1e-4))


# %%
with your_code("lab2") as mine:
    # Swapping the weights must change the output; a shut gate must silence it.
    layer = mine.Qwen3MLP(SMALL)
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
# Where are the 8.19 billion parameters of Qwen3-8B? Guess the share of the MLP first.
#
# Qwen3-8B 的 81.9 亿参数都在哪里？先猜一猜 MLP 占多少。


# %%
with your_code("lab2") as mine:
    # Your count against the published models.
    counts = {name: mine.count_parameters(c) for name, c in MODELS.items()}
    parts = ["embedding", "attention", "mlp", "norm", "lm_head"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8))
    for axes, whole in ((left, False), (right, True)):
        below = torch.zeros(len(MODELS))
        for part in parts:
            sizes = torch.tensor([float(count[part]) for count in counts.values()])  # [models]
            totals = torch.tensor([float(count["total"]) for count in counts.values()])
            height = sizes / totals if whole else sizes / 1e9
            axes.bar(list(MODELS), height, bottom=below, label=part)
            below = below + height
    left.set(title="parameters, in billions")
    right.set(title="shares", ylim=(0, 1))
    left.legend()
    plt.show()
    published = {"0.6B": 596_049_920, "1.7B": 1_720_574_976, "4B": 4_022_468_096}
    published |= {"8B": 8_190_735_360, "14B": 14_768_307_200, "32B": 32_762_123_264}
    for name, total in published.items():
        yours = counts[name]["total"]
        print(f"{name:5} {yours:14,}  off by {yours - total:,}")
    print(verdict(all(counts[name]["total"] == total for name, total in published.items())))

# %% [markdown]
# A quarter of Qwen3-0.6B is the embedding, which is tied: it is also the output head. From 8B on,
# the two are separate. The larger the model, the larger the share of the MLP.
#
# Qwen3-0.6B 的四分之一是词嵌入，它与输出头共享。从 8B 起，两者分开。模型越大，MLP 所占的比例越大。

# %%
with your_code("lab2") as mine:
    # Bytes, gigabytes (10^9) and gibibytes (2^30) are three different numbers.
    for dtype in ("float32", "bfloat16"):
        size = mine.weight_bytes(MODELS["8B"], dtype)
        print(f"8B in {dtype:8}: {size:14,} bytes = {size / 1e9:.2f} GB = {size / 2**30:.2f} GiB")
    weights = [mine.weight_bytes(c, "bfloat16") / 2**30 for c in MODELS.values()]  # GiB
    caches = [mine.kv_cache_bytes(c, 32_768, 4, "bfloat16") / 2**30 for c in MODELS.values()]
    plt.figure(figsize=(6, 3.4))
    plt.bar(list(MODELS), weights, label="weights, bfloat16")
    plt.bar(list(MODELS), caches, bottom=weights, label="KV cache, 4 x 32,768 tokens")
    for size in (24, 80):
        plt.axhline(size, color="black", linestyle=":", linewidth=1)
        plt.text(-0.4, size + 1, f"a GPU of {size} GiB")
    plt.ylabel("GiB")
    plt.legend(loc="center left")
    plt.show()
    print(verdict(mine.weight_bytes(MODELS["8B"], "bfloat16") == 16_381_470_720))

# %% [markdown]
# The weights are stored once; the cache grows with every token of every conversation. Sharing
# key/value heads is what keeps the cache small: with as many kv heads as query heads (dotted),
# Qwen3-32B would need eight times as much.
#
# 权重只有一份；缓存则随每段对话的每个 token 增长。共享键值头才使缓存这么小：
# 若键值头与查询头一样多（虚线），Qwen3-32B 的缓存会是现在的八倍。

# %%
with your_code("lab2") as mine:
    lengths = [1, 8_192, 16_384, 24_576, 32_768]
    plt.figure(figsize=(6.5, 3.8))
    for color, name in enumerate(("0.6B", "8B", "32B")):
        shared = MODELS[name]
        alone = replace(shared, num_key_value_heads=shared.num_attention_heads)
        for config, style in ((shared, "-"), (alone, ":")):
            sizes = [mine.kv_cache_bytes(config, n, 1, "bfloat16") / 2**30 for n in lengths]
            label = f"{name}: {config.num_key_value_heads} kv heads"
            plt.plot(lengths, sizes, style, color=f"C{color}", label=label)
    plt.xlabel("tokens of one conversation")
    plt.ylabel("KV cache, GiB")
    plt.legend()
    plt.show()
    one = [mine.kv_cache_bytes(MODELS[name], 1, 1, "bfloat16") for name in ("0.6B", "4B", "8B")]
    print("bytes per token for 0.6B, 4B, 8B:", one)
    print(verdict(one == [114_688, 147_456, 147_456]))

# %% [markdown]
# ## 10. And now? · 接下来
#
# Is everything as you expected? These experiments are not the checks: the next cells run the checks
# on your saved files. Once they all pass, run `make chat LAB=2 PROMPT="Call me"`. Then try to break
# your code: swap norm and rotation on purpose, and see which of the pictures above show it and
# which do not.
#
# 都和你预想的一样吗？这些小实验不是检查：下面的单元用你保存的文件运行检查，
# 全部通过后运行 `make chat LAB=2 PROMPT="Call me"`。然后故意改错，比如交换归一化与旋转，
# 看看上面哪些图看得出来，哪些看不出来。

# %%
# %check lab2

# %%
# %hint lab2
