# %% [markdown]
# # Lab 6: tiles and experts, in pictures · 实验 6：看得见的分块与专家
#
# This notebook accompanies the handout of lab 6 (`labs/lab6_flash_moe/README.md`). You can run it
# from the start: a cell that needs a function you have not written yet says so, and the rest
# carries on. Write the function, save, and run the cell again: every cell reloads your files.
# Before you run a cell, guess what it will show.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。运行之前，先猜一猜结果。

# %% set-up
import math
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code

plt.rcParams["figure.constrained_layout.use"] = True

from autograder.worker.costs import measure  # what the checks count with: live bytes, FLOPs


def plain(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention with the whole table ``[B, heads, M, N]``; k and v have as many heads as q."""
    table = torch.einsum("bhmd,bhnd->bhmn", q, k) / math.sqrt(q.shape[-1])
    if causal:
        table += torch.full_like(table[0, 0], -torch.inf).triu(1)
    return torch.softmax(table, dim=-1) @ v


# %% [markdown]
# ## 1. A softmax in one pass · 一遍算完的 softmax
#
# Scores arrive one by one; only two numbers are kept. When a new maximum arrives, the sum shrinks,
# because everything in it is now measured from a higher point. Watch both.
#
# 分数逐个到来，只保留两个数。出现新的最大值时，和会缩小，因为其中的每一项都改用更高的基准。
# 看看这两条线。

# %%
with your_code("lab6") as mine:
    scores = torch.cat((torch.randn(12), torch.tensor([3.0]), torch.randn(12), torch.tensor([5.0]),
                        torch.randn(12)))  # fmt: skip
    seen = [mine.online_softmax(scores[:count].split(1)) for count in range(1, len(scores) + 1)]
    figure, (top, below) = plt.subplots(2, 1, figsize=(8, 4), sharex=True)
    top.plot(scores, "o", markersize=3, label="scores")
    top.step(range(len(scores)), [maximum for maximum, _ in seen], where="post", label="maximum")
    top.legend(loc="upper left")
    below.step(range(len(scores)), [total for _, total in seen], where="post", color="C2")
    below.set(ylabel="sum", xlabel="scores seen")
    plt.show()
    maximum, total = seen[-1]
    print(verdict(abs(float(maximum + total.log() - scores.logsumexp(dim=0))) < 1e-5))

# %% [markdown]
# Wherever the blocks are cut, the two numbers are the same. A row that has seen only masked scores
# ends at minus infinity and 0, not at NaN.
#
# 无论从哪里切块，得到的两个数都一样。一行如果只有被屏蔽的分数，结果是负无穷和 0，而不是 NaN。

# %%
with your_code("lab6") as mine:
    row = torch.tensor([1.0, 3.0, 2.0, 5.0])
    for cut in ([4], [1, 3], [2, 1, 1], [1, 1, 1, 1]):
        maximum, total = mine.online_softmax(row.split(cut))
        print(f"blocks of {cut}: maximum {maximum:.4f}, sum {total:.4f}")
    hidden, nothing = mine.online_softmax(torch.full((6,), -torch.inf).split(2))
    print(f"all hidden: maximum {hidden}, sum {nothing}")
    print(verdict(abs(total - 1.2034) < 1e-4 and hidden == -torch.inf and nothing == 0))

# %% [markdown]
# ## 2. Tiles · 分块
#
# A causal table of 12 queries and 12 keys in tiles of 3 by 3. Dark: needs no mask. Lighter: crossed
# by the diagonal. White: nothing is visible, so it is not computed at all.
#
# 12 个查询、12 个键的因果表，分成 3×3 的块。深色：不需要掩码。浅色：被对角线穿过。白色：
# 什么都看不到，根本不计算。

# %%
queries, keys = torch.arange(12)[:, None], torch.arange(12)
first, last = queries // 3 * 3, queries // 3 * 3 + 2  # of the tile of each query
kind = (keys // 3 * 3 <= last).int() + (keys // 3 * 3 + 2 <= first).int()  # 0, 1 or 2
plt.figure(figsize=(3.6, 3.4))
plt.imshow(kind, cmap="Blues", vmin=0, vmax=2.5)
plt.plot(range(12), range(12), ".", color="black")
plt.hlines(torch.arange(2.5, 11), -0.5, 11.5, color="grey", linewidth=0.5)
plt.vlines(torch.arange(2.5, 11), -0.5, 11.5, color="grey", linewidth=0.5)
plt.xlabel("key")
plt.ylabel("query")
plt.show()

# %% [markdown]
# The floating-point operations of your function, causal divided by not causal. With many tiles it
# is little more than half.
#
# 统计你的函数的浮点运算次数：因果时与非因果时之比。块越多，越接近一半。

# %%
with your_code("lab6") as mine:
    q, k, v = torch.randn(3, 1, 2, 256, 16)  # [B, heads, seq, head_dim] each
    shares = {}
    for block in (16, 32, 64, 128, 256):
        flops = [
            measure(mine.flash_attention, (q, k, v, causal, block, block), {}, {})[1]["flops"]
            for causal in (True, False)
        ]
        shares[block] = flops[0] / flops[1]
    plt.figure(figsize=(5, 2.6))
    plt.plot(list(shares), list(shares.values()), marker="o", label="yours")
    tiles = [256 // block for block in shares]
    plt.plot(list(shares), [(n + 1) / (2 * n) for n in tiles], ":", label="tiles that are needed")
    plt.xscale("log", base=2)
    plt.ylim(0, 1.1)
    plt.xlabel("size of a block, of 256 tokens")
    plt.ylabel("work: causal / all")
    plt.legend()
    plt.show()
    print(verdict(shares[16] < 0.62))

# %% [markdown]
# ## 3. The numbers do not depend on the tiles · 数值与分块无关
#
# 13 queries, 21 keys, shared kv heads; block sizes from 1 to 24, whether they divide the lengths or
# not. The colour shows how far the output is from that of plain attention.
#
# 13 个查询、21 个键、共享键值头；块的大小从 1 到 24，有的能整除长度，有的不能。
# 颜色表示输出与普通注意力的差距。

# %%
with your_code("lab6") as mine:
    q = torch.randn(1, 6, 13, 10)
    k, v = torch.randn(2, 1, 2, 21, 10)
    shared = [t.repeat_interleave(3, dim=1) for t in (k, v)]  # [1, 6, 21, 10]
    padded = torch.cat((torch.zeros(1, 6, 8, 10), q), dim=2)  # the queries are the last 13 of 21
    truth = plain(padded, *shared, causal=True)[:, :, 8:]
    blocks = (1, 2, 3, 5, 8, 13, 24)
    off = torch.tensor(
        [[(mine.flash_attention(q, k, v, True, bq, bk) - truth).abs().max() for bk in blocks]
         for bq in blocks]
    )  # fmt: skip
    plt.figure(figsize=(4.6, 3.6))
    plt.imshow(off.clamp(min=1e-9).log10(), cmap="magma", vmin=-9, vmax=0)
    plt.xticks(range(len(blocks)), blocks)
    plt.yticks(range(len(blocks)), blocks)
    plt.xlabel("block_k")
    plt.ylabel("block_q")
    plt.colorbar(label="largest difference, power of ten")
    plt.show()
    print(verdict(bool(off.max() < 1e-4)))

# %% [markdown]
# ## 4. Peak memory · 峰值内存
#
# The peak bytes of a call, arguments not counted. The table grows with the square of the length,
# yours with the length. (Both axes are logarithmic: the slopes are 2 and 1.)
#
# 一次调用的峰值字节数，不含传入的参数。整张表随长度的平方增长，你的实现随长度增长。（两轴均为对数：
# 斜率分别是 2 和 1。）

# %%
with your_code("lab6") as mine:
    lengths = [128, 256, 512, 1024]
    peaks = {"the whole table": [], "yours, blocks of 64": []}
    for length in lengths:
        q, k, v = torch.randn(3, 1, 4, length, 32)
        _, cost = measure(plain, (q, k, v, True), {}, {})
        peaks["the whole table"].append(cost["peak"] / 2**20)
        _, cost = measure(mine.flash_attention, (q, k, v, True, 64, 64), {}, {})
        peaks["yours, blocks of 64"].append(cost["peak"] / 2**20)
    plt.figure(figsize=(5.5, 3.4))
    for name, sizes in peaks.items():
        plt.loglog(lengths, sizes, marker="o", base=2, label=name)
    plt.xlabel("tokens")
    plt.ylabel("live memory, MiB")
    plt.legend()
    plt.show()
    growth = {name: sizes[-1] / sizes[-2] for name, sizes in peaks.items()}
    print({name: round(factor, 2) for name, factor in growth.items()}, "for twice the length")
    print(verdict(growth["the whole table"] > 3.5 and growth["yours, blocks of 64"] < 2.2))

# %% [markdown]
# Larger blocks mean fewer steps in Python and fewer passes over the keys, but more memory. On a
# GPU, a block is as large as fits into the fast memory on the chip.
#
# 块越大，Python 中的步数和读取键的次数越少，占用的内存越多。在 GPU 上，
# 块的大小取决于片上高速存储能放下多少。

# %%
with your_code("lab6") as mine:
    q, k, v = torch.randn(3, 1, 4, 512, 32)
    sizes = [16, 32, 64, 128, 256, 512]
    peaks = [
        measure(mine.flash_attention, (q, k, v, False, size, size), {}, {})[1]["peak"] / 2**20
        for size in sizes
    ]
    plt.figure(figsize=(5, 2.8))
    plt.semilogx(sizes, peaks, marker="o", base=2)
    plt.axhline(512 * 32 * 4 * 4 / 2**20, linestyle=":", color="black", label="the output alone")
    plt.xlabel("size of a block, of 512 tokens")
    plt.ylabel("live memory, MiB")
    plt.legend()
    plt.show()
    print(verdict(peaks[0] < peaks[-1] / 4))

# %% [markdown]
# ## 5. Routing · 路由
#
# 16 tokens, 8 experts, 2 per token. Left: the router's probabilities for all experts. Right: the
# weights it gives to the chosen ones, which add up to 1 in every row with `norm_topk_prob`. A
# column is the work of one expert.
#
# 16 个 token、8 个专家，每个 token 用 2 个。左：路由器对所有专家的概率。右：它给选中的专家的权重；
# 开启 `norm_topk_prob` 时每行之和为 1。一列就是一个专家的工作。

# %%
with your_code("lab6") as mine:
    x = torch.randn(16, 12)  # [tokens, hidden]
    preference = torch.randn(8, 12)
    pictures = {}
    for normed in (False, True):
        router = mine.Router(12, 8, 2, normed)
        router.weight.copy_(preference)
        logits, weights, chosen = router(x)
        name = f"chosen, norm_topk_prob={normed}"
        pictures["all probabilities"] = torch.softmax(logits, dim=-1)
        pictures[name] = torch.zeros(16, 8).scatter(1, chosen, weights)  # [tokens, experts]
    figure, grid = plt.subplots(1, 3, figsize=(10, 4.4), sharey=True)
    for axes, (name, picture) in zip(grid, pictures.items(), strict=True):
        axes.imshow(picture, cmap="viridis", vmin=0, vmax=1)
        axes.set(title=name, xlabel="expert", xticks=range(8))
    grid[0].set_ylabel("token")
    plt.show()
    handed = pictures["chosen, norm_topk_prob=True"]
    ones = torch.ones(16)
    print(
        verdict(torch.allclose(handed.sum(dim=1), ones) and bool(((handed > 0).sum(1) == 2).all()))
    )

# %% [markdown]
# ## 6. How much work each expert has · 各个专家的工作量
#
# 400 similar tokens: some experts are crowded, others idle. An expert computes only its own tokens,
# so the cost grows with `top_k`, not with the number of experts.
#
# 400 个彼此相似的 token：有的专家拥挤，有的空闲。专家只计算分给它的 token，因此开销取决于 `top_k`，
# 而不是专家的个数。

# %%
with your_code("lab6") as mine:
    x = torch.randn(400, 12) + torch.randn(12)  # they have something in common
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3))
    router = mine.Router(12, 16, 2, True)
    router.weight.copy_(torch.randn(16, 12) / 3)
    _, weights, chosen = router(x)
    left.bar(range(16), torch.bincount(chosen.flatten(), minlength=16))
    left.axhline(400 * 2 / 16, color="black", linestyle=":")
    left.set(title="400 tokens, 2 experts each", xlabel="expert", ylabel="tokens")
    for count, width in ((8, 9), (16, 5), (32, 1)):  # the lines lie upon each other
        experts = mine.Experts(12, 24, count)
        work = []
        for top_k in (1, 2, 4, 8):
            chosen = torch.rand(400, count).topk(top_k).indices  # [tokens, top_k]
            given = (x, chosen, torch.full(chosen.shape, 1 / top_k))
            work.append(measure(experts, given, {}, {})[1]["flops"] / 1e6)
        right.plot((1, 2, 4, 8), work, linewidth=width, label=f"{count} experts")
    right.set(title="work of the experts", xlabel="top_k", ylabel="million FLOPs")
    right.legend()
    plt.show()
    print(verdict(abs(work[3] / work[0] - 8) < 0.5))

# %% [markdown]
# So a model has two sizes: what has to be stored, and what a token uses. Qwen3-30B-A3B has 128
# experts in each of 48 layers, 8 of them per token.
#
# 因此一个模型有两种大小：要存储的，和一个 token 用到的。Qwen3-30B-A3B 的 48 层中，
# 每层有 128 个专家，每个 token 用 8 个。

# %%
hidden, layers, inner = 2048, 48, 768
attention = layers * 2 * hidden * (32 + 4) * 128  # 32 query heads, 4 kv heads, head_dim 128
expert, router, embedding = layers * 3 * hidden * inner, layers * 128 * hidden, 2 * 151_936 * hidden
plt.figure(figsize=(6, 2.2))
start = torch.zeros(2)
for name, sizes in {
    "embedding and head": (embedding, embedding),
    "attention": (attention, attention),
    "router": (router, router),
    "experts": (128 * expert, 8 * expert),
}.items():
    billions = torch.tensor(sizes) / 1e9
    plt.barh(["stored", "used by a token"], billions, left=start, label=name)
    start += billions
plt.xlabel("parameters, billions")
plt.legend()
plt.show()
print(f"{start[0]:.2f} billion stored, {start[1]:.2f} billion used")

# %% [markdown]
# ## 7. Balance · 均衡
#
# At first all experts are equally popular; then expert 0 is preferred more and more. The loss is
# `top_k` when all are used equally, and grows as expert 0 gets crowded.
#
# 起初各个专家机会均等，然后逐渐偏向 0 号专家。使用均匀时损失等于 `top_k`，越拥挤损失越大。

# %%
with your_code("lab6") as mine:
    logits = torch.randn(4000, 8)  # [tokens, experts]
    pushes = torch.linspace(0, 6, 25)
    losses, busiest = [], []
    for push in pushes:
        pushed = logits + push * torch.eye(8)[0]
        losses.append(mine.load_balancing_loss([pushed], 8, 1).item())
        busiest.append((pushed.argmax(dim=-1) == 0).float().mean().item())
    plt.figure(figsize=(6, 3))
    plt.plot(pushes, losses, label="loss, top_k 1")
    plt.plot(pushes, busiest, label="share of expert 0")
    plt.axhline(1, color="black", linestyle=":")
    plt.xlabel("preference for expert 0")
    plt.legend()
    plt.show()
    print(verdict(abs(losses[0] - 1) < 0.05 and losses[-1] > 7))

# %% [markdown]
# ## 8. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab6

# %%
# %hint lab6
