# %% [markdown]
# # Lab 5: tensor parallelism, in pictures · 实验 5：看得见的张量并行
#
# This notebook accompanies the handout of lab 5 (`labs/lab5_tensor_parallel/README.md`). You can
# run it from the start: a cell that needs a function you have not written yet says so, and the rest
# carries on. Write the function, save, and run the cell again: every cell reloads your files.
# Before you run a cell, guess what it will show.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。运行之前，先猜一猜结果。

# %% set-up
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest import mock

import matplotlib.pyplot as plt
import torch
import torch.distributed as dist

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code

plt.rcParams["figure.constrained_layout.use"] = True

# %% [markdown]
# ## 1. Ranks that are threads · 用线程充当 rank
#
# The grader runs every rank as a process of its own. Here threads take their place: only within one
# process can a notebook see what each of them brings and takes. (Section 11 starts real processes,
# of which you see nothing but what they print.) It also shows how little there is behind a
# collective: each rank brings a tensor, waits for the others, and takes what all of them have
# brought.
#
# 评分程序让每个 rank 成为独立的进程。这里用线程代替：只有在同一个进程里，笔记本才能看到每个 rank
# 带来什么、取走什么。（第 11 节会启动真正的进程，但只能看到它们打印的内容。）
# 由此也能看出集合通信有多简单：每个 rank 带来一个张量，等待其他 rank，再取走大家带来的全部张量。

# %%
here = threading.local()  # here.rank: which rank this thread is


def on_ranks(count: int, work: Callable[[], Any]) -> tuple[list[Any], list[list[torch.Tensor]]]:
    """Run ``work`` on so many ranks: what each returns, and what each collective was given."""
    meeting = threading.Barrier(count, timeout=30)
    brought: list[torch.Tensor] = [torch.empty(0)] * count
    history: list[list[torch.Tensor]] = []

    def exchange(x: torch.Tensor) -> list[torch.Tensor]:
        brought[here.rank] = x.clone()
        if meeting.wait() == 0:  # all have brought theirs; one of them writes it down
            history.append(list(brought))
        everything = list(brought)
        meeting.wait()  # all have taken theirs
        return everything

    def all_reduce(x: torch.Tensor, *_: Any, **__: Any) -> None:
        x.copy_(torch.stack(exchange(x)).sum(dim=0))

    def all_gather(out: list[torch.Tensor], x: torch.Tensor, *_: Any, **__: Any) -> None:
        for place, part in zip(out, exchange(x), strict=True):
            place.copy_(part)

    def run(rank: int) -> Any:
        here.rank = rank
        try:
            with torch.no_grad():
                return work()
        except BaseException as error:
            meeting.abort()  # nobody shall wait for this one
            return error

    names = {"all_reduce": all_reduce, "all_gather": all_gather}
    names |= {"get_rank": lambda *_: here.rank, "get_world_size": lambda *_: count}
    with mock.patch.multiple(dist, **names), ThreadPoolExecutor(count) as pool:
        results = list(pool.map(run, range(count)))
    errors = [result for result in results if isinstance(result, BaseException)]
    # A rank that waited in vain is not the one to tell of.
    for error in sorted(errors, key=lambda one: isinstance(one, threading.BrokenBarrierError)):
        raise error
    return results, history


def brings_its_number() -> torch.Tensor:
    """Every rank adds one number: its own."""
    x = torch.tensor([float(dist.get_rank())])
    dist.all_reduce(x)
    return x


sums, _ = on_ranks(4, brings_its_number)
print(sums, verdict(all(one.item() == 0 + 1 + 2 + 3 for one in sums)))

# %% [markdown]
# ## 2. Who holds which head · 谁持有哪些头
#
# Eight query heads and two kv heads (`head_dim` 1, so that a row is a head). Every row of the whole
# weights has a name; your loader decides where it goes. A rank packs its query heads, then its key
# heads, then its value heads. With more ranks than kv heads, neighbours hold the same one.
#
# 八个查询头、两个键值头（`head_dim` 取 1，一行就是一个头）。完整权重的每一行都有名字，
# 由你的加载函数决定它去了哪里。每个 rank 依次打包自己的查询头、键的头、值的头。rank 比键值头多时，
# 相邻的 rank 持有同一个头。


# %%
def packed(mine) -> list[str]:
    """What a rank holds: the names of its rows."""
    linear = mine.QKVParallelLinear(hidden_size=1, head_dim=1, num_heads=8, num_kv_heads=2)
    for shard, first, rows in (("q", 0, 8), ("k", 10, 2), ("v", 20, 2)):
        whole = torch.arange(float(first), first + rows)[:, None]  # [rows, 1]: numbers as names
        linear.weight.weight_loader(linear.weight, whole, shard)
    return ["qkv"[int(row) // 10] + str(int(row) % 10) for row in linear.weight[:, 0].tolist()]


with your_code("lab5") as mine:
    figure, grid = plt.subplots(1, 3, figsize=(12, 2.6), width_ratios=(12, 6, 4))
    colors = {"q": 0.35, "k": 0.6, "v": 0.8}
    for axes, ranks in zip(grid, (1, 2, 4), strict=True):
        held, _ = on_ranks(ranks, lambda: packed(mine))
        picture = [[colors[name[0]] for name in row] for row in held]
        axes.imshow(picture, cmap="Blues", vmin=0, vmax=1.2, aspect="auto")
        for rank, row in enumerate(held):
            for place, name in enumerate(row):
                axes.text(place, rank, name, ha="center", va="center")
        axes.set(title=f"ranks: {ranks}", xticks=[], yticks=range(ranks), ylabel="rank")
    plt.show()
    print(verdict(held == [["q0", "q1", "k0", "v0"], ["q2", "q3", "k0", "v0"],
                           ["q4", "q5", "k1", "v1"], ["q6", "q7", "k1", "v1"]]))  # fmt: skip

# %% [markdown]
# The price of copies: the number of kv heads that all ranks of Qwen3-8B (32 heads, 8 kv heads) hold
# together. Up to 8 ranks, the cache is split among them; beyond that, every rank still holds one
# head, and the copies add up.
#
# 副本的代价：Qwen3-8B（32 个头，8 个键值头）的所有 rank 一共持有多少键值头。不超过 8 个 rank 时，
# 缓存由各 rank 分摊；再多，每个 rank 仍要持有一个头，副本就多起来。

# %%
with your_code("lab5") as mine:
    counts = {}
    for ranks in (1, 2, 4, 8, 16, 32):
        held, _ = on_ranks(ranks, lambda: mine.QKVParallelLinear(64, 2, 32, 8).num_kv_heads)
        counts[ranks] = held
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 2.6))
    names = [str(ranks) for ranks in counts]
    left.bar(names, [held[0] for held in counts.values()])
    left.set(title="kv heads of one rank", xlabel="ranks")
    right.bar(names, [sum(held) for held in counts.values()])
    right.axhline(8, color="black", linestyle=":")
    right.set(title="kv heads of all ranks together", xlabel="ranks")
    plt.show()
    print(verdict([held[0] for held in counts.values()] == [8, 4, 2, 1, 1, 1]))

# %% [markdown]
# ## 3. Rows and columns · 按行切、按列切
#
# The MLP on four ranks; a colour shows which rank holds this number of the whole weight. Gate and
# up are each cut along their output; down is cut along its input. So the features that a rank
# computes are exactly those that its columns of `down_proj` need.
#
# 四个 rank 上的 MLP；颜色表示完整权重的这个数由哪个 rank 持有。gate 与 up 各自沿输出切，
# down 沿输入切。于是一个 rank 算出的特征，正是它那几列 `down_proj` 所需要的。


# %%
def holders(shape: tuple[int, int], pieces: list[torch.Tensor]) -> torch.Tensor:
    """Which rank holds each number of a weight whose numbers are 0, 1, 2, …; -1: nobody."""
    holder = torch.full((shape[0] * shape[1],), -1)
    for rank, piece in enumerate(pieces):
        holder[piece.flatten().long()] = rank
    return holder.view(shape)


with your_code("lab5") as mine:
    hidden, inner = 6, 8
    numbered = torch.arange(float(inner * hidden)).view(inner, hidden)

    def shards() -> list[torch.Tensor]:
        merged = mine.MergedColumnParallelLinear(hidden, inner)
        for part in (0, 1):
            merged.weight.weight_loader(merged.weight, numbered, part)
        down = mine.RowParallelLinear(inner, hidden)
        down.weight.weight_loader(down.weight, numbered.view(hidden, inner))
        return [*merged.weight.chunk(2), down.weight]

    held, _ = on_ranks(4, shards)
    shapes = {
        "gate_proj": (inner, hidden),
        "up_proj": (inner, hidden),
        "down_proj": (hidden, inner),
    }
    figure, grid = plt.subplots(1, 3, figsize=(10, 3))
    maps = []
    for part, (axes, (name, shape)) in enumerate(zip(grid, shapes.items(), strict=True)):
        maps.append(holders(shape, [pieces[part] for pieces in held]))
        axes.imshow(maps[-1], cmap="tab10", vmin=0, vmax=9)
        axes.set(title=f"{name} {list(shape)}", xlabel="input", ylabel="output")
    plt.show()
    by_rank = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
    right = [by_rank[:, None].expand(8, 6)] * 2 + [by_rank.expand(6, 8)]
    print(verdict(all(torch.equal(one, other) for one, other in zip(maps, right, strict=True))))

# %% [markdown]
# ## 4. A sum of four · 四份之和
#
# Each rank multiplies its features by its columns: not a piece of the answer, but one of four
# *summands* of the whole answer. The single collective call adds them up. Below: what each rank
# brought for one token, and what all of them received.
#
# 每个 rank 用自己的特征乘以自己的列：得到的不是答案的一段，而是整个答案的四个*加数*之一。
# 唯一的一次集合通信把它们相加。下图是各个 rank 为一个 token 带来的数，以及大家得到的和。

# %%
with your_code("lab5") as mine:
    whole, x = torch.randn(6, 8), torch.randn(1, 8)  # [out, in], [tokens, in]

    def one_part() -> torch.Tensor:
        linear = mine.RowParallelLinear(8, 6)
        linear.weight.weight_loader(linear.weight, whole)
        return linear(x.chunk(4, dim=1)[dist.get_rank()].clone())

    taken, calls = on_ranks(4, one_part)
    figure, grid = plt.subplots(1, 5, figsize=(12, 2.4), sharey=True)
    for rank, (axes, part) in enumerate(zip(grid, calls[0], strict=False)):
        axes.bar(range(6), part.flatten()[:6], color=f"C{rank}")
        axes.set(title=f"brought by rank {rank}", xlabel="output")
    grid[4].bar(range(6), taken[0][0], color="black")
    grid[4].set(title="taken by all", xlabel="output")
    plt.show()
    right = all(torch.allclose(one, x @ whole.T, atol=1e-5) for one in taken)
    print(f"collective calls: {len(calls)}", verdict(right and len(calls) == 1))

# %% [markdown]
# ## 5. Tokens without a batch · 没有批次轴的 token
#
# Three texts end to end: `cu_seqlens` says where each begins. The values are labels again (row $j$
# of the identity), so the output is the table of attention weights: triangles, and nothing between
# texts.
#
# 三段文本首尾相接，`cu_seqlens` 说明各从哪里开始。值仍作为标签（单位矩阵的第 $j$ 行），
# 输出就是注意力权重表：几个三角形，文本之间什么也没有。

# %%
with your_code("lab5") as mine:
    tokens, borders = 12, torch.tensor([0, 3, 9, 12])
    q, k = torch.randn(tokens, 4, tokens), torch.randn(tokens, 2, tokens)  # [tokens, heads, 12]
    labels = torch.eye(tokens)[:, None].expand(tokens, 2, tokens).contiguous()
    weights = mine.flat_attention(q, k, labels, borders)  # [tokens, heads, tokens]
    figure, grid = plt.subplots(1, 4, figsize=(13, 3.2), sharey=True)
    for head, axes in enumerate(grid):
        axes.imshow(weights[:, head], cmap="viridis", vmin=0, vmax=1)
        axes.set(title=f"head {head}", xlabel="key", xticks=range(0, 12, 3))
    grid[0].set_ylabel("query")
    plt.show()
    text = torch.bucketize(torch.arange(tokens), borders, right=True)  # which text a token is of
    may = (text[:, None] == text) & torch.ones(tokens, tokens).tril().bool()
    rows = weights.sum(dim=-1)
    print(verdict(bool((weights[:, 0][~may] == 0).all()) and torch.allclose(rows, rows**0)))

# %% [markdown]
# ## 6. One, two, four ranks: the same numbers · 结果相同
#
# The whole attention with the same weights. The output must not depend on how many ranks there are,
# and one collective call is enough.
#
# 用同样的权重运行整个注意力。输出不应该知道有几个 rank；一次集合通信就够了。

# %%
with your_code("lab5") as mine:
    heads, kv_heads, size, hidden = 8, 2, 4, 20
    weights = {name: torch.randn(rows * size, hidden) / 4
               for name, rows in {"q": heads, "k": kv_heads, "v": kv_heads}.items()}  # fmt: skip
    out_weight, x = torch.randn(hidden, heads * size) / 4, torch.randn(9, hidden)
    positions, borders = torch.tensor([0, 1, 2, 3, 0, 1, 2, 3, 4]), torch.tensor([0, 4, 9])

    def attention() -> torch.Tensor:
        layer = mine.Qwen3Attention(hidden, heads, kv_heads, size, 1e-6, 1e4)
        for name, weight in weights.items():
            layer.qkv_proj.weight.weight_loader(layer.qkv_proj.weight, weight, name)
        layer.o_proj.weight.weight_loader(layer.o_proj.weight, out_weight)
        return layer(positions, x, borders)

    (alone,), _ = on_ranks(1, attention)
    for ranks in (2, 4):
        outputs, calls = on_ranks(ranks, attention)
        off = max(float((one - alone).abs().max()) for one in outputs)
        print(f"{ranks} ranks: off by {off:.7f}, collective calls: {len(calls)}")
        print(verdict(off < 1e-4 and len(calls) == 1))

# %% [markdown]
# ## 7. The sum lives in the next norm · 求和留给下一个归一化
#
# Two layers with simple stand-ins for attention and MLP. Your layer never adds; it passes on two
# tensors, and their *sum* is the residual stream. The picture shows how large both are after every
# layer, and their sum next to the usual way, which adds at once.
#
# 两层，注意力与 MLP 用简单的函数代替。你的层从不相加；它传出两个张量，二者之*和*才是残差流。
# 图中是每层之后两者的大小，以及它们的和与“立即相加”的普通写法的比较。

# %%
from labs.given.flat import StandInAttention, StandInMLP

with your_code("lab5") as mine:
    x, borders, positions = torch.randn(6, 10), torch.tensor([0, 6]), torch.arange(6)
    hidden, residual, plain = x, None, x  # [tokens, hidden]
    sizes, off = [], []
    for _ in range(3):
        attention, mlp = StandInAttention(10), StandInMLP(10)
        attention.weight.normal_(std=0.3)
        mlp.weight.normal_(std=0.5)
        layer = mine.Qwen3DecoderLayer(10, 1e-6, attention, mlp)
        hidden, residual = layer(positions, hidden, residual, borders)
        norm = layer.input_layernorm  # weights of one: both norms are the same
        plain = plain + attention(positions, norm(plain)[0], borders)
        plain = plain + mlp(norm(plain)[0])
        sizes.append([t.norm().item() for t in (hidden, residual, hidden + residual, plain)])
        off.append(float((hidden + residual - plain).norm() / plain.norm()))
    figure, axes = plt.subplots(figsize=(7, 3))
    for place, name in enumerate(("hidden", "residual", "hidden + residual", "added at once")):
        heights = [row[place] for row in sizes]
        axes.bar(torch.arange(3) + 0.2 * (place - 1.5), heights, width=0.18, label=name)
    axes.set_xticks(range(3), [f"layer {layer}" for layer in range(3)])
    axes.set_ylabel("length")
    axes.legend()
    plt.show()
    print(verdict(max(off) < 1e-5))

# %% [markdown]
# ## 8. Names · 名字
#
# A checkpoint knows `gate_proj` and `up_proj`; your module has `gate_up_proj`. `load_weights` hands
# each tensor to the loader of the parameter that holds it. Then two ranks compute what one would.
#
# 检查点里是 `gate_proj` 和 `up_proj`，你的模块里是 `gate_up_proj`。
# `load_weights` 把每个张量交给持有它的参数的加载函数。之后，两个 rank 的结果与一个 rank 相同。

# %%
with your_code("lab5") as mine:
    checkpoint = {"gate_proj.weight": torch.randn(12, 10), "up_proj.weight": torch.randn(12, 10)}
    checkpoint |= {"down_proj.weight": torch.randn(10, 12)}
    x = torch.randn(5, 10)

    def mlp() -> torch.Tensor:
        module = mine.Qwen3MLP(10, 12, mine.RowParallelLinear(12, 10))
        mine.load_weights(module, checkpoint)
        return module(x)

    for name, tensor in checkpoint.items():
        module, *part = mine.packed_modules_mapping.get(name.split(".")[0], (name.split(".")[0],))
        print(f"{name:18} {list(tensor.shape)} -> {module} {part}")
    (alone,), _ = on_ranks(1, mlp)
    outputs, calls = on_ranks(2, mlp)
    off = float((outputs[1] - alone).abs().max() / alone.abs().max())
    print(f"off by {off:.7f}", verdict(off < 1e-4 and len(calls) == 1))

# %% [markdown]
# ## 9. A vocabulary in ranges · 词表分段
#
# Ten tokens on four ranks: three rows each, so the last rank has two that belong to nobody. Above,
# what each rank brings for the tokens of a text: its own rows, and zeros for all others. Below,
# what each brings for the head: scores of its own range. A sum puts the first together, gathering
# the second.
#
# 十个 token 分到四个 rank：每个三行，最后一个 rank 有两行不属于任何 token。上排是每个 rank
# 为一段文本带来的：自己的行，其余为零。下排是每个 rank 为输出头带来的：自己那一段的分数。
# 前者靠求和合成，后者靠收集拼接。

# %%
with your_code("lab5") as mine:
    table, ids = torch.randn(10, 4) + 2, torch.tensor([7, 2, 9, 0, 2, 5])  # [vocabulary, hidden]
    states, borders = torch.randn(5, 4), torch.tensor([0, 2, 5])

    def both_ends() -> tuple[torch.Tensor, torch.Tensor]:
        embedding, head = mine.VocabParallelEmbedding(10, 4), mine.ParallelLMHead(10, 4)
        for module in (embedding, head):
            module.weight.weight_loader(module.weight, table)
        return embedding(ids), head(states, borders)

    taken, calls = on_ranks(4, both_ends)
    scores = states[[1, 4]] @ table.T  # of the last token of each sequence: [2, 10]
    figure, grid = plt.subplots(2, 4, figsize=(11, 4))
    for rank, (above, below) in enumerate(grid.T):
        above.imshow(calls[0][rank] != 0, cmap="Blues", vmin=0, vmax=1.5)
        above.set(title=f"rank {rank}", xlabel="feature", yticks=range(6), yticklabels=ids.tolist())
        below.imshow(calls[1][rank], cmap="viridis", vmin=scores.min(), vmax=scores.max())
        below.set(xlabel=f"token ids from {3 * rank}", xticks=[], yticks=[0, 1])
    grid[0, 0].set_ylabel("token id")
    grid[1, 0].set_ylabel("sequence")
    plt.show()
    right = all(torch.equal(rows, table[ids]) and torch.allclose(logits, scores, atol=1e-5)
                for rows, logits in taken)  # fmt: skip
    print(f"collective calls: {len(calls)}", verdict(right and len(calls) == 2))

# %% [markdown]
# ## 10. Which pairs YaRN slows down · YaRN 放慢哪些对
#
# Qwen3's 64 pairs with YaRN by a factor of 4: how much is left of each frequency, against the
# number of turns the pair makes in 32,768 tokens. Many turns: all angles were seen in training, and
# nothing changes. Less than one: divided by 4, so that no angle is new at 131,072 tokens. In
# between: a straight line over the pairs.
#
# Qwen3 的 64 对，factor 为 4 的 YaRN：横轴是在 32,768 个 token 内转过的圈数，纵轴是频率剩下的比例。
# 圈数多的，所有角度训练时都见过，不变；不满一圈的除以 4，这样到 131,072 个 token 时也没有新的角度；
# 中间的随对的序号线性过渡。

# %%
with your_code("lab5") as mine:
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    plain = 1e6 ** (-torch.arange(0, 128, 2) / 128)  # radians per position, by pair
    share = mine.yarn_frequencies(128, 1e6, scaling) / plain
    turns = plain * 32768 / (2 * torch.pi)
    figure, axes = plt.subplots(figsize=(7, 2.8))
    axes.plot(turns, share, "o", markersize=3)
    for border in (32, 1):
        axes.axvline(border, color="black", linestyle=":")
    axes.set(xscale="log", ylim=(0, 1.1), xlabel="turns in 32,768 tokens", ylabel="frequency left")
    plt.show()
    fast, slow = share[turns > 32], share[turns < 1]
    print(f"{len(fast)} pairs as they were, {len(slow)} pairs divided by 4",
          verdict(bool((fast == 1).all()) and torch.allclose(slow, slow * 0 + 0.25)))  # fmt: skip

# %% [markdown]
# ## 11. Real ranks · 真正的 rank
#
# Two processes under `torchrun`, as on a machine with two GPUs; torch's own gloo carries the sum
# from one to the other. Outside the grader, you initialise the group yourself. The processes get
# the numbers of the table in “One sum at the end” in the handout.
#
# 用 `torchrun` 启动两个进程，就像在有两块 GPU 的机器上那样；求和由 torch 自带的 gloo 在进程之间
# 完成。在评分程序之外，进程组要由你自己初始化。给这两个进程的数，就是讲义“末尾的一次求和”中的表。

# %%
PROGRAM = """
import os
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
from attention import RowParallelLinear

linear = RowParallelLinear(4, 2)
whole = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, -1.0]])
linear.weight.weight_loader(linear.weight, whole)
part = torch.tensor([[1.0, -2.0, 2.0, 1.0]]).chunk(2, dim=1)[dist.get_rank()]
print(f"rank {dist.get_rank()}, process {os.getpid()}: {linear(part).tolist()}", flush=True)
dist.destroy_process_group()
"""


def real_ranks(count: int) -> str:
    """What so many processes print."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "try_ranks.py"
        script.write_text(PROGRAM)
        places = [ROOT / "labs" / "lab5_tensor_parallel", ROOT]
        words = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        done = subprocess.run(
            [*words, f"--nproc-per-node={count}", str(script)],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, places))},
            capture_output=True,
            text=True,
            timeout=120,
        )
    if done.returncode:
        return f"The ranks did not come to an end · 这些 rank 没有正常结束:\n{done.stderr[-1500:]}"
    return "".join(sorted(done.stdout.splitlines(keepends=True)))


with your_code("lab5") as mine:

    def in_one_piece() -> torch.Tensor:
        linear = mine.RowParallelLinear(4, 2)
        whole = torch.tensor([[1.0, 2.0, 3.0, 4.0], [0.0, 1.0, 0.0, -1.0]])
        linear.weight.weight_loader(linear.weight, whole)
        return linear(torch.tensor([[1.0, -2.0, 2.0, 1.0]]))

    (alone,), _ = on_ranks(1, in_one_piece)
    print("in one piece · 不切分:", alone.tolist())
    printed = real_ranks(2)
    print(printed, end="")
    print(verdict(printed.count(str(alone.tolist())) == 2))

# %% [markdown]
# ## 12. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab5

# %%
# %hint lab5
