# %% [markdown]
# # Lab 3: a cache, in pictures · 实验 3：看得见的 KV 缓存
#
# This notebook accompanies the handout of lab 3 (`labs/lab3_kv_cache/README.md`). You can run it
# from the start: a cell that needs a function you have not written yet says so, and the rest
# carries on. Write the function, save, and run the cell again: every cell reloads your files.
# Before you run a cell, guess what it will show.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。运行之前，先猜一猜结果。

# %% set-up
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import torch

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code
from labs.given.config import Qwen3Config

plt.rcParams["figure.constrained_layout.use"] = True

# %% [markdown]
# ## 1. Rotating is multiplying · 旋转就是乘法
#
# A pair of features is a point in a plane, hence a complex number; to rotate it, multiply it by a
# number of length 1. The table holds one such number per position and pair. Each picture is one
# pair: the first goes around the circle, the last hardly moves.
#
# 一对特征是平面上的一个点，也就是一个复数；旋转就是乘以一个长度为 1 的数。表中每个位置、
# 每一对各有一个这样的数。每幅图是一对：第一对绕着圆转，最后一对几乎不动。

# %%
with your_code("lab3") as mine:
    table = mine.precompute_freqs_cis(8, 12, 100.0)  # complex [12 positions, 4 pairs]
    figure, grid = plt.subplots(1, 4, figsize=(12, 3.2), sharex=True, sharey=True)
    for pair, axes in enumerate(grid):
        points = torch.view_as_real(table[:, pair])  # [positions, 2]
        axes.plot(*points.T, ":", color="grey")
        axes.scatter(*points.T, c=range(12), cmap="viridis", zorder=2)
        axes.set(title=f"pair {pair}, positions 0 to 11", xlim=(-1.2, 1.2), ylim=(-1.2, 1.2))
        axes.set_aspect("equal")
    plt.show()
    print("row 2:", [f"{number:.4f}" for number in table[2].tolist()])
    lengths = table.abs()
    print(verdict(bool((lengths - 1).abs().max() < 1e-6) and abs(table[2, 0].real + 0.4161) < 1e-3))

# %% [markdown]
# Queries and keys are rotated alike, so the score depends only on how far apart they are. Here are
# all pairs of positions, with the same query and the same key everywhere.
#
# 查询与键按同样的方式旋转，因此分数只取决于两者的距离。图中是所有的位置组合，
# 用的都是同一个查询与同一个键。

# %%
with your_code("lab3") as mine:
    q = torch.randn(1, 1, 1, 32).expand(1, 48, 1, 32)  # [B, T, heads, head_dim]
    k = torch.randn(1, 1, 1, 32).expand(1, 48, 1, 32)
    table = mine.precompute_freqs_cis(32, 48, 100.0)
    turned_q, turned_k = mine.apply_rotary_emb(q, k, table)
    products = turned_q[0, :, 0] @ turned_k[0, :, 0].T  # [position of q, position of k]
    plt.figure(figsize=(4, 3.6))
    plt.imshow(products, cmap="RdBu")
    plt.xlabel("position of the key")
    plt.ylabel("position of the query")
    plt.show()
    moved = (products[1:, 1:] - products[:-1, :-1]).abs().max()  # one step down a diagonal
    print(verdict(bool(moved < 1e-3) and bool((products[0] - products[9]).abs().max() > 0.1)))

# %% [markdown]
# ## 2. Which features form a pair · 谁和谁是一对
#
# Hugging Face pairs feature $j$ with $j + d/2$, Meta's code pairs neighbours. The numbers below are
# the rows of a weight; each colour is a pair. Converting weights means putting the two rows of each
# pair side by side, within each head.
#
# Hugging Face 把第 $j$ 个特征与第 $j + d/2$ 个配对，Meta 的代码则让相邻的两个配对。
# 下面的数字是权重的行号，颜色相同的是一对。转换权重，就是在每个头内把每一对的两行放到一起。

# %%
with your_code("lab3") as mine:
    heads, size = 2, 8
    rows = torch.arange(float(heads * size))[:, None]  # a weight whose rows are their own numbers
    order = mine.permute_for_complex(rows, heads, size)[:, 0].int().tolist()
    figure, grid = plt.subplots(2, 1, figsize=(9, 2.2))
    titles = ("Hugging Face", "for complex numbers (yours)")
    for axes, title, numbers in zip(grid, titles, (list(range(16)), order), strict=True):
        pairs = [size // 2 * (row // size) + row % (size // 2) for row in numbers]
        axes.imshow([pairs], cmap="tab10", aspect="auto", vmin=0, vmax=9)
        for place, row in enumerate(numbers):
            axes.text(place, 0, str(row), ha="center", va="center", color="white")
        axes.set(title=title, xticks=[], yticks=[])
    plt.show()
    print(verdict(order == [0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15]))

# %% [markdown]
# With converted weights, both forms give the same scores. Without, nothing complains: the shapes
# are right, but it is quietly a different model.
#
# 转换之后，两种写法给出相同的分数。不转换也不会报错：形状都对，模型却悄悄变成了另一个。


# %%
def turned_by_halves(x: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """Hugging Face's pairs for ``x`` ``[T, head_dim]``: halves are the two coordinates."""
    points = torch.complex(*x.chunk(2, dim=-1)) * table  # [T, head_dim/2]
    return torch.cat((points.real, points.imag), dim=-1)


with your_code("lab3") as mine:
    x, weight = torch.randn(10, 20), torch.randn(2, 8, 20)  # tokens; a wq and a wk of one head
    table = mine.precompute_freqs_cis(8, 10, 100.0)
    truth_q, truth_k = (turned_by_halves(x @ w.T, table) for w in weight)
    truth = truth_q @ truth_k.T  # [10, 10]
    off = {}
    for name, weights in {
        "converted": [mine.permute_for_complex(w, 1, 8) for w in weight],
        "as they were": list(weight),
    }.items():
        q, k = ((x @ w.T).view(1, 10, 1, 8) for w in weights)
        q, k = mine.apply_rotary_emb(q, k, table)
        scores = q[0, :, 0] @ k[0, :, 0].T
        off[name] = float((scores - truth).norm() / truth.norm())
        print(f"weights {name}: the scores are off by {off[name]:.6f} of their length")
    print(verdict(off["converted"] < 1e-4 and off["as they were"] > 0.1))

# %% [markdown]
# ## 3. The cache fills · 缓存逐渐填满
#
# Five calls: a prompt of four tokens, then one by one. Each row is what one call returned. Nothing
# beyond the current length must ever come out, and after `reset` the old text is forgotten.
#
# 五次调用：先是四个 token 的提示，然后逐个加入。每一行是一次调用返回的内容。
# 当前长度以外的内容绝不能返回；`reset` 之后，旧的文本就忘掉了。

# %%
with your_code("lab3") as mine:
    cache = mine.KVCache(batch=1, max_len=10, kv_heads=2, head_dim=4, dtype=torch.float32)
    picture, start = torch.full((6, 10), torch.nan), 0
    for call, count in enumerate((4, 1, 1, 1, 1)):
        places = torch.arange(float(start), start + count)  # every token is its own number
        new = places[None, :, None, None].expand(1, count, 2, 4)  # [B, T, kv_heads, head_dim]
        keys, _ = cache.update(new, new, start)
        picture[call, : keys.shape[1]] = keys[0, :, 0, 0]
        start += count
    cache.reset()
    keys, _ = cache.update(torch.full((1, 2, 2, 4), 9.0), torch.zeros(1, 2, 2, 4), 0)
    picture[5, : keys.shape[1]] = keys[0, :, 0, 0]
    plt.figure(figsize=(6, 3.2))
    plt.imshow(picture, cmap="viridis", vmin=0, vmax=9)
    plt.yticks(range(6), ["prompt", "step 1", "step 2", "step 3", "step 4", "after reset"])
    plt.xlabel("slot in the cache; white: not returned")
    plt.show()
    lengths = (~picture.isnan()).sum(dim=-1).tolist()
    print(verdict(lengths == [4, 5, 6, 7, 8, 2] and picture[4, :8].tolist() == list(range(8))))

# %%
with your_code("lab3") as mine:
    # A cache that is too small, and a gap: both are errors that say what is wrong.
    cache = mine.KVCache(1, 4, 2, 4, torch.float32)
    refused = 0
    for count, start in ((5, 0), (1, 3)):
        new = torch.zeros(1, count, 2, 4)
        try:
            cache.update(new, new, start)
        except ValueError as error:
            print(f"{count} tokens at {start}: {error}")
            refused += 1
    print(verdict(refused == 2))

# %% [markdown]
# ## 4. At once, in pieces, one by one · 一次、分段、逐个
#
# The same text goes through the same layer in three ways. The mask of a piece is aligned to the
# right: its queries are the last tokens. Any difference means a wrong position, a wrong mask or a
# wrong entry in the cache.
#
# 同一段文本，以三种方式通过同一层。分段时掩码靠右对齐：查询是最后的那些 token。有任何差异，
# 就说明位置、掩码或缓存有错。


# %%
def layer_of(mine, cache=None):
    """Your attention: width 44, 6 heads, 2 kv heads of 16; the same weights every time."""
    torch.manual_seed(1)
    return mine.GroupedQueryAttention(44, 6, 2, 16, 1e-6, cache)


with your_code("lab3") as mine:
    x = torch.randn(1, 12, 44)  # [B, T, dim]
    table = mine.precompute_freqs_cis(16, 32, 1e6)
    whole = layer_of(mine)(x, 0, table)
    figure, grid = plt.subplots(1, 3, figsize=(11, 3), sharey=True)
    worst = 0.0
    for axes, sizes in zip(grid, ([12], [5, 4, 3], [1] * 12), strict=True):
        layer = layer_of(mine, mine.KVCache(1, 32, 2, 16, torch.float32))
        start, outputs = 0, []
        for count in sizes:
            outputs.append(layer(x[:, start : start + count], start, table))
            start += count
        difference = (torch.cat(outputs, dim=1) - whole)[0].norm(dim=-1)  # [T]
        worst = max(worst, float(difference.max()))
        axes.bar(range(12), difference.clamp(min=1e-9))
        axes.set(title=f"pieces of {sizes[0]}" if len(sizes) > 1 else "at once", yscale="log")
        axes.set(ylim=(1e-10, 10), xlabel="token")
    grid[0].set_ylabel("difference from no cache")
    plt.show()
    print(verdict(worst < 1e-4))

# %% [markdown]
# ## 5. What it saves · 省下了什么
#
# To write 64 tokens after a prompt of 32, how many tokens go through the layer? First counted, then
# timed on this machine with your layer.
#
# 在 32 个 token 的提示之后再生成 64 个：一共有多少 token 经过这一层？先数一数，
# 再用你的层在这台机器上计时。

# %%
with your_code("lab3") as mine:
    table = mine.precompute_freqs_cis(16, 1024, 1e6)
    text = torch.randn(1, 520, 44)
    cached, bare = layer_of(mine, mine.KVCache(1, 1024, 2, 16, torch.float32)), layer_of(mine)
    lengths = list(range(32, 520, 54))
    seconds = {"again from the start": [], "with the cache": []}
    for length in lengths:
        cached(text[:, :length], 0, table)  # what came before
        for times, layer, start in (
            (seconds["again from the start"], bare, 0),
            (seconds["with the cache"], cached, length),
        ):
            tries = []
            for _ in range(4):  # the fastest: other programs run, too
                began = time.perf_counter()
                layer(text[:, start : length + 1], start, table)
                tries.append(time.perf_counter() - began)
            times.append(min(tries))
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2))
    steps = torch.arange(64)
    left.plot(steps, (32 + steps).cumsum(0), label="again from the start")
    left.plot(steps, 32 + steps, label="with the cache")
    left.set(xlabel="tokens written", ylabel="tokens through the layer, in all")
    left.legend()
    for name, times in seconds.items():
        right.plot(lengths, [1000 * one for one in times], marker="o", label=name)
    right.set(xlabel="tokens so far", ylabel="milliseconds for the next one", yscale="log")
    right.legend()
    plt.show()

# %% [markdown]
# ## 6. What it costs · 代价
#
# The cache keeps kv heads, not query heads. Here are the bytes of your own cache for one layer of
# Qwen3-8B (head_dim 128, bfloat16), with 32 kv heads (none shared), 8 (Qwen3) and 1.
#
# 缓存保存的是键值头，不是查询头。下面是你的缓存为 Qwen3-8B 的一层（head_dim 128，
# bfloat16）所占的字节：32 个键值头（不共享）、8 个（Qwen3）和 1 个。


# %%
def bytes_of(thing) -> int:
    """Bytes of all tensors that an object holds, each counted once."""
    found = {t.data_ptr(): t for t in vars(thing).values() if isinstance(t, torch.Tensor)}
    return sum(t.numel() * t.element_size() for t in found.values())


with your_code("lab3") as mine:
    lengths = [1024, 2048, 3072, 4096]
    plt.figure(figsize=(5.5, 3.2))
    for kv_heads in (32, 8, 1):
        caches = [mine.KVCache(1, length, kv_heads, 128, torch.bfloat16) for length in lengths]
        sizes = [bytes_of(cache) / 2**20 for cache in caches]
        plt.plot(lengths, sizes, marker="o", label=f"{kv_heads} kv heads")
    plt.xlabel("max_len")
    plt.ylabel("MiB for one layer")
    plt.legend()
    plt.show()
    print(f"8 kv heads, 4096 tokens, 36 layers: {36 * 2 * 8 * 128 * 2 * 4096 / 2**30:.4f} GiB")

# %% [markdown]
# ## 7. How wide the MLP is · MLP 有多宽
#
# Llama's configs do not say how wide the MLP is; they say how to compute it. The steps are the
# rounding to `multiple_of`.
#
# Llama 的配置没有直接给出 MLP 的宽度，而是给出算法。图中的台阶来自按 `multiple_of` 取整。

# %%
with your_code("lab3") as mine:
    widths = list(range(512, 5121, 16))
    plt.figure(figsize=(6, 3.2))
    for multiple in (1, 256, 1024):
        sizes = [mine.feed_forward_size(width, multiple, None) for width in widths]
        plt.plot(widths, sizes, label=f"multiple_of {multiple}", linewidth=1)
    plt.xlabel("dim")
    plt.ylabel("hidden_dim")
    plt.legend()
    plt.show()
    seven, three = mine.feed_forward_size(4096, 256, None), mine.feed_forward_size(4096, 1024, 1.3)
    print(f"Llama 2 7B: {seven}, Llama 3 8B: {three}", verdict((seven, three) == (11008, 14336)))

# %% [markdown]
# ## 8. What a layer computes · 一层要计算多少
#
# One layer of Qwen3-0.6B. On the left it reads a prompt, on the right it takes one more token. Only
# attention depends on what came before: with the square of the length in prefill, in a straight
# line per step. Guess where the lines cross before you run the cell.
#
# Qwen3-0.6B 的一层。左图读入一段提示，右图只再处理一个 token。只有注意力与之前的内容有关：
# 预填充时随长度的平方增长，解码一步时随长度线性增长。运行之前先猜一猜两条线在哪里相交。

# %%
with your_code("lab3") as mine:
    small = Qwen3Config(151936, 1024, 3072, 28, 16, 8, 128)
    lengths = [512 * n for n in range(1, 17)]
    calls = {"prefill": [(n, 0) for n in lengths], "one step": [(1, n - 1) for n in lengths]}
    figure, grid = plt.subplots(1, 2, figsize=(10, 3.2))
    for axes, (name, asked) in zip(grid, calls.items(), strict=True):
        counts = [mine.layer_flops(small, *call) for call in asked]
        for group in ("projections", "attention", "mlp"):
            axes.plot(lengths, [count[group] / 1e6 for count in counts], label=group)
        axes.axvline(3840, color="grey", linestyle=":")
        axes.set(title=name, xlabel="tokens", ylabel="million FLOPs")
    grid[0].legend()
    plt.show()
    cost = mine.layer_flops(small, 1, 3839)
    even = cost["attention"] == cost["projections"] + cost["mlp"]
    print(f"3840 keys: attention {cost['attention']:,}, all weights the same", verdict(even))

# %% [markdown]
# ## 9. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab3

# %%
# %hint lab3
