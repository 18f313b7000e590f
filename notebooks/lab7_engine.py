# %% [markdown]
# # Lab 7: an engine, in pictures · 实验 7：看得见的推理引擎
#
# This notebook accompanies the handout of lab 7 (`labs/lab7_engine/README.md`). You can run it from
# the start: a cell that needs a function you have not written yet says so, and the rest carries on.
# Write the function, save, and run the cell again: every cell reloads your files. Each section asks
# something first: write down your guess before you run the cell.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。每一节都先提一个问题：
# 写下你的猜测，再运行单元。

# %% set-up
import sys
from itertools import pairwise, product
from pathlib import Path

import matplotlib.pyplot as plt
import torch

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code
from labs.given.config import Qwen3Config
from labs.given.serving import PagedModel, PlainCache, TextModel, drive, heard

plt.rcParams["figure.constrained_layout.use"] = True
palette = plt.matplotlib.colors.ListedColormap

# %% [markdown]
# ## 1. Who owns which block · 块归谁所有
#
# A pool of 6 blocks for 4 tokens each. A stores 9 tokens, B is forked from it, then each appends a
# token, and A is freed. Guess how many blocks are available after each call. Below, each row is a
# call and each column a block; “A2” is block 2 of A's table. On the right, a place that was never
# written is 0.
#
# 池中有 6 个块，每块放 4 个 token。A 存入 9 个 token，B 是它的分叉，然后两者各追加一个 token，
# 最后释放 A。猜一猜：每次调用之后还有几个块可用？图中一行是一次调用，一列是一个块；
# “A2”表示它是 A 的块表中的第 2 个块。右图中，从未写过的位置是 0。


# %%
def store(table, numbers) -> None:
    """Append tokens to one of your tables; each is its own number, as key and as value."""
    new = torch.tensor(numbers, dtype=torch.float32)[:, None, None].expand(-1, 1, 2)
    table.append(new, new)  # [tokens, kv_heads, head_dim]


with your_code("lab7") as mine:
    pool = mine.BlockPool(6, 4, kv_heads=1, head_dim=2)
    tables = {"A": mine.BlockTable(pool)}
    calls = {
        "A: append 9": lambda: store(tables["A"], range(1, 10)),
        "B: fork of A": lambda: tables.update(B=tables["A"].fork()),
        "B: append 1": lambda: store(tables["B"], [20]),
        "A: append 1": lambda: store(tables["A"], [10]),
        "A: free": lambda: tables["A"].free(),
    }
    available = []
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3), width_ratios=(5, 3))
    picture = torch.zeros(len(calls), 6)  # 0: nobody's, 1: A's, 2: B's, 3: of both
    for row, call in enumerate(calls.values()):
        call()
        available.append(pool.available)
        for block in range(6):
            places = [f"{name}{table.blocks.index(block)}" for name, table in tables.items()
                      if block in table.blocks]  # fmt: skip
            picture[row, block] = sum({"A": 1, "B": 2}[place[0]] for place in places)
            left.text(block, row, "\n".join(places), ha="center", va="center")
    colors = {"cmap": palette(["white", "#9ecae1", "#fdd0a2", "#c7e9c0"]), "vmin": 0, "vmax": 3}
    left.imshow(picture, aspect="auto", **colors)
    left.set(title="owners (blue: A, orange: B, green: both)", xlabel="block of the pool")
    left.set_yticks(range(len(calls)), calls)
    right.imshow(picture[-1][:, None].expand(6, 4), aspect="auto", **colors)
    for block, place in product(range(6), range(4)):
        right.text(place, block, int(pool.keys[block, place, 0, 0]), ha="center", va="center")
    right.set(title="what the pool holds at the end", xlabel="place", ylabel="block",
              xticks=range(4))  # fmt: skip
    plt.show()
    print("available:", available, verdict(available == [3, 3, 2, 2, 3]))

# %% [markdown]
# B's token, 20, is in a copy: A wrote its 10 into the old block, without copying, since by then
# nobody else owned it. The blocks that A gave back still hold their numbers: nobody clears a block.
#
# B 的 token 20 写在副本里；A 的 10 直接写进原来的块，没有复制，因为那时别人已不再拥有它。
# A 归还的块里还留着原来的数：没有谁去清空它。

# %% [markdown]
# ## 2. Reading through a table · 经由块表读取
#
# One call for three sequences: a whole prompt of 6 tokens, the last 4 tokens of 9, one token after
# 11. Their blocks are in no order. Values are labels (row $j$ of the identity), so the output is
# the table of attention weights. Guess how many keys each of the queries sees.
#
# 一次调用处理三条序列：6 个 token 的完整提示、9 个 token 中的最后 4 个、11 个 token 之后的一个。
# 它们的块次序混乱。值是标签（单位矩阵的第 $j$ 行），输出就是注意力权重表。
# 猜一猜，每个查询能看到几个键？

# %%
with your_code("lab7") as mine:
    contexts, news, order = (6, 9, 12), (6, 4, 1), torch.tensor([5, 2, 7, 0, 8, 3, 1, 6])
    keys, values = torch.randn(9, 4, 1, 12), torch.randn(9, 4, 1, 12)  # [blocks, places, 1, 12]
    rows, start = torch.full((3, 3), -1), 0
    for row, context in enumerate(contexts):
        count = -(-context // 4)
        rows[row, :count] = order[start : start + count]
        for token in range(context):
            values[rows[row, token // 4], token % 4, 0] = torch.eye(12)[token]
        start += count
    borders = torch.tensor([0, 6, 10, 11])  # cu_seqlens
    q = torch.randn(11, 1, 12)  # [tokens, heads, head_dim]
    weights = mine.paged_attention(q, keys, values, rows, torch.tensor(contexts), borders)[:, 0]
    figure, grid = plt.subplots(3, 1, figsize=(6, 5), height_ratios=news, sharex=True)
    seen = []
    for axes, (first, end), context in zip(grid, pairwise(borders.tolist()), contexts, strict=True):
        axes.imshow(weights[first:end], cmap="viridis", vmin=0, vmax=1, aspect="auto")
        axes.set_yticks(range(end - first), range(context - (end - first), context))
        seen += (weights[first:end] > 0).sum(dim=1).tolist()
    grid[1].set_ylabel("position of the query")
    grid[2].set_xlabel("position of the key")
    plt.show()
    print("keys that each query sees:", seen)
    print(verdict(seen == [1, 2, 3, 4, 5, 6, 6, 7, 8, 9, 12]))

# %% [markdown]
# ## 3. Eight and four bits · 八位与四位
#
# The sixteen marks of three groups (grey; the red one stands for 0) and the 16 weights of each
# group (blue). Guess: what does one large weight, as in the last group, do to its neighbours?
#
# 三个组的十六个刻度（灰色；红色的代表 0）与每组的 16 个权重（蓝色）。
# 猜一猜：像最后一组那样出现一个很大的权重，对同组的其他权重有什么影响？

# %%
with your_code("lab7") as mine:
    groups = torch.randn(3, 16)
    groups[1] = groups[1].abs() + 1
    groups[2, 0] = 7
    packed, scales, zeros = mine.quantize_groups(groups, 16)
    back = mine.dequantize_groups(packed, scales, zeros, 16)
    figure, grid = plt.subplots(3, 1, figsize=(8, 3.4), sharex=True)
    names = ("both signs", "one sign", "one outlier")
    for axes, name, w, scale, zero in zip(grid, names, groups, scales[:, 0], zeros[:, 0].int(),
                                          strict=True):  # fmt: skip
        axes.vlines((torch.arange(16) - zero) * scale, -1, 1, color="lightgrey")
        axes.vlines(0, -1, 1, color="red")
        axes.plot(w, torch.zeros(16), "o", markersize=4)
        axes.set(title=f"{name}: step {scale:.3f}, zero point {zero}", yticks=[])
    grid[2].set_xlabel("weight")
    plt.show()
    steps = (groups - back).abs() / scales
    print(f"largest error: {steps.max():.3f} steps", verdict(bool(steps.max() < 0.501)))

# %% [markdown]
# Left: a weight in which one number in a hundred is eight times as large; its error with eight bits
# per row, and with four bits and smaller and smaller groups. Guess: with small enough groups, can
# four bits be as accurate as eight? Right: the linear layers of three models. Guess: does Qwen3-32B
# in four bits take more or less than Qwen3-8B in sixteen? Scales and zero points are counted in
# both.
#
# 左：一个权重，其中每一百个数约有一个是其他的八倍；图中是每行八位的误差，
# 以及四位时组越来越小的误差。猜一猜：组足够小时，四位能达到八位的精度吗？右：三个模型的线性层。
# 猜一猜：四位的 Qwen3-32B比十六位的 Qwen3-8B 占得多，还是少？两图都计入 scale 与零点。

# %%
with your_code("lab7") as mine:
    weight = torch.randn(64, 512)
    weight *= torch.where(torch.rand(64, 512) < 0.01, 8, 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.2), width_ratios=(4, 5))
    codes, scales = mine.quantize_per_channel(weight)
    eight = float((codes * scales[:, None] - weight).norm() / weight.norm())
    left.plot((codes.nbytes + scales.nbytes) * 8 / weight.numel(), eight, "s", color="C1",
              label="eight bits per row")  # fmt: skip
    bits, errors = [], []
    for size in (512, 256, 128, 64, 32, 16, 8):
        parts = mine.quantize_groups(weight, size)
        off = mine.dequantize_groups(*parts, size) - weight
        bits.append(sum(part.nbytes for part in parts) * 8 / weight.numel())
        errors.append(float(off.norm() / weight.norm()))
        left.annotate(f" {size}", (bits[-1], errors[-1]), va="bottom")
    left.plot(bits, errors, marker="o", label="four bits, by group_size")
    left.set(xlabel="bits per number", ylabel="relative error", ylim=(0, 0.36))
    left.legend()
    sizes = {  # vocabulary, hidden, intermediate, layers, heads, kv heads, head_dim
        "Qwen3-8B": Qwen3Config(151936, 4096, 12288, 36, 32, 8, 128),
        "Qwen3-14B": Qwen3Config(151936, 5120, 17408, 40, 40, 8, 128),
        "Qwen3-32B": Qwen3Config(151936, 5120, 25600, 64, 64, 8, 128),
    }
    forms = {"16 bits": (16,), "8 bits": (8,), "4 bits, groups of 32": (4, 32),
             "4 bits, groups of 128": (4, 128)}  # fmt: skip
    gib = {}
    for place, (name, form) in enumerate(forms.items()):
        gib[name] = [mine.weight_bytes(config, *form) / 2**30 for config in sizes.values()]
        bars = right.bar(torch.arange(3) + 0.2 * (place - 1.5), gib[name], width=0.18, label=name)
        right.bar_label(bars, fmt="%.1f", fontsize=7)
    right.set_xticks(range(3), sizes)
    right.set_ylabel("linear layers, GiB")
    right.legend()
    plt.show()
    falling = errors == sorted(errors, reverse=True) and eight < errors[-1] / 2
    print(verdict(falling and abs(gib["8 bits"][2] - 29.08) < 0.01))

# %% [markdown]
# ## 4. Beginnings that are found again · 能再次找到的开头
#
# Left: 8 blocks; a text of 24 tokens has filled 6 of them and given them back. Then others take
# blocks. How many tokens of the text can still be found? Guess the curve, and the curve of a cache
# that gives up the beginning first. Right: five requests begin with the same 24 tokens; what is
# left for each to compute?
#
# 左：8 个块；一段 24 个 token 的文本填满其中 6 个后归还。然后别人来取块。这段文本还能找到多少个
# token？猜一猜这条曲线的样子；如果先让出的是开头，曲线又是什么样？右：五个请求以同样的 24 个
# token 开头；每个请求还剩多少要计算？

# %%
with your_code("lab7") as mine:
    text, found = list(range(24)), []
    for others in range(9):
        cache = mine.PrefixCache(8, 4)
        blocks = cache.allocate(6)
        for place, block in enumerate(blocks, start=1):
            cache.fill(block, text[: 4 * place])
        cache.release(blocks)
        cache.allocate(others)
        found.append(4 * len(cache.match([*text, 99])))
    cache = mine.PrefixCache(60, 4)
    requests = [(i, [*text, *range(100 * i, 100 * i + 5)], 4, 2 * i, 0) for i in range(5)]
    works = drive(mine.Scheduler(cache, 64, 5), cache, requests)["works"]
    skipped = [int(works[works[:, 1] == i, 2].min()) for i in range(5)]  # where it starts
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 2.8))
    left.step(range(9), found, where="mid", marker="o")
    left.set(xlabel="blocks taken by others", ylabel="tokens found", yticks=range(0, 25, 4))
    right.bar(range(5), [29 - count for count in skipped], label="computed")
    right.bar(range(5), skipped, bottom=[29 - count for count in skipped], label="found",
              color="lightgrey")  # fmt: skip
    right.set(xlabel="request", ylabel="tokens of its prompt")
    right.set_ylim(0, 36)
    right.legend(loc="upper center", ncols=2)
    plt.show()
    print(found, skipped)
    print(verdict(found == [24, 24, 24, 20, 16, 12, 8, 4, 0] and skipped == [0] + [24] * 4))

# %% [markdown]
# ## 5. A batch over time · 批次随时间的变化
#
# Four requests, 10 blocks of 4 tokens, at most 8 tokens per step, at most 3 requests at a time. The
# prompts have 5, 16, 7 and 3 tokens; the picture says how many of them are computed in which step.
# Guess: who has to go back when blocks run out? And may request 3, which needs only one block, come
# in before it?
#
# 四个请求，10 个块，每块 4 个 token，每步至多 8 个 token，同时至多 3 个请求。提示分别有 5、16、7、3
# 个 token；图中的数字是各请求在每一步计算的 token 数。猜一猜：块用完时谁要退回？
# 只需要一个块的请求 3 能赶在它前面进入吗？

# %%
with your_code("lab7") as mine:
    cache = PlainCache(10, 4)  # it finds nothing again: your PrefixCache is not needed here
    # id, prompt, new tokens, arrival; 0: nothing stops it early
    requests = [(0, range(5), 9, 0, 0), (1, range(16), 6, 1, 0), (2, range(7), 7, 3, 0),
                (3, range(3), 4, 4, 0)]  # fmt: skip
    trace = drive(mine.Scheduler(cache, 8, 3), cache, requests)
    ends = {number: step for step, number in trace["ends"].tolist()}
    picture = torch.zeros(4, trace["steps"])  # 0: not there
    for number, _, _, arrival, _ in requests:
        picture[number, arrival : ends[number] + 1] = 1  # waits, unless it is computed
    figure, (top, below) = plt.subplots(2, 1, figsize=(9, 4.4), sharex=True, height_ratios=(3, 2))
    load, blocks, reached = torch.zeros(trace["steps"]), torch.zeros(trace["steps"]), [0] * 4
    for step, number, start, count, _, _, left in trace["works"].tolist():
        again = start < reached[number]
        picture[number, step] = 4 if again else 3 if start >= len(requests[number][1]) else 2
        top.text(step, number, count, ha="center", va="center")
        load[step] += count
        blocks[step] = 10 - left
        reached[number] = max(reached[number], start + count)
    kinds = {"waits": "#dddddd", "prompt": "#9ecae1", "new token": "#c7e9c0",
             "computed again": "#fdae6b"}  # fmt: skip
    top.imshow(picture, cmap=palette(["white", *kinds.values()]), vmin=0, vmax=4, aspect="auto")
    for kind, color in kinds.items():
        top.plot([], [], "s", color=color, label=kind)
    top.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    top.set(ylabel="request", yticks=range(4))
    below.bar(range(trace["steps"]), load, color="C0", label="tokens")
    below.step(range(trace["steps"]), blocks, where="mid", color="black", label="blocks owned")
    below.axhline(8, linestyle=":", color="C0", label="budget")
    below.set(xlabel="step", xticks=range(trace["steps"]), yticks=range(0, 11, 2))
    below.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    plt.show()
    print("last steps:", ends, verdict(ends == {0: 8, 1: 8, 3: 13, 2: 14} and load.max() <= 8))

# %% [markdown]
# One text is growing; at step 4 a prompt of 48 tokens arrives. All requests in a step wait for
# every token in it. Guess what a larger budget changes: the number of tokens computed in all, the
# largest step, the steps until the first new token of the long prompt?
#
# 一段文本正在增长；第 4 步来了一个 48 个 token 的提示。一步中的每个 token，这一步的所有请求都要等。
# 猜一猜，预算变大会改变什么：总共计算的 token 数、最大的一步、长提示的第一个新 token 要等的步数？

# %%
with your_code("lab7") as mine:
    budgets, totals, largest, delay = [4, 8, 16, 32, 64], [], [], []
    for budget in budgets:
        cache = PlainCache(40, 4)
        pair = [(0, range(4), 30, 0, 0), (1, range(48), 3, 4, 0)]
        works = drive(mine.Scheduler(cache, budget, 2), cache, pair)["works"]
        steps = torch.zeros(100).index_add(0, works[:, 0], works[:, 3].float())
        totals.append(int(works[:, 3].sum()))
        largest.append(int(steps.max()))
        firsts = works[(works[:, 1] == 1) & (works[:, 5] == 1), 0]  # steps that sample
        delay.append(int(firsts[0]) - 4 + 1)
    plt.figure(figsize=(5.5, 2.8))
    plt.plot(budgets, largest, marker="o", label="largest step, tokens")
    plt.plot(budgets, delay, marker="s", label="steps to the first new token")
    plt.xscale("log", base=2)
    plt.xticks(budgets, budgets)
    plt.xlabel("token budget")
    plt.legend()
    plt.show()
    print("tokens computed in all:", totals)
    print(verdict(len(set(totals)) == 1 and delay == [16, 7, 4, 2, 1]))

# %% [markdown]
# ## 6. Streams · 流式输出
#
# Three requests through the whole engine; the stop word of request 1 is `dab`. Each line shows how
# many letters a reader has after a number of calls of the model. Where it is flat, the request
# waits, or the engine holds back what may become the stop word. Guess: do the texts depend on the
# budget?
#
# 三个请求通过整个引擎；请求 1 的停止词是 `dab`。每条线表示模型调用若干次之后，读者已得到多少字母。
# 线不动的地方，要么在等待，要么保留着可能成为停止词的内容。猜一猜：文本会随预算而变吗？

# %%
with your_code("lab7") as mine:
    words = ["a", "b", "d", "da", "ba", "ab", "c", "bad"]  # the text of every token id
    scores = torch.randn(101, 8)  # all tokens so far pick the row
    # id, prompt, new tokens, arrival, stop words, temperature, seed
    asked = [(0, range(4), 9, 0, (), 0.0, 0), (1, range(2, 8), 16, 0, ("dab",), 1.0, 39),
             (2, range(7), 8, 2, (), 1.0, 5)]  # fmt: skip
    told = {}
    for budget in (3, 64):
        cache, model = mine.PrefixCache(30, 4), PagedModel(scores, 30, 4)
        engine = mine.Engine(model, mine.Scheduler(cache, budget, 3), words)
        told[budget] = heard(engine, model, asked)
    figure, grid = plt.subplots(1, 2, figsize=(9, 2.8), sharey=True)
    for axes, (budget, one) in zip(grid, told.items(), strict=True):
        for number, pieces in one["pieces"].items():
            letters = torch.tensor([0, *map(len, pieces.split("\n"))]).cumsum(0)
            axes.step([0, *one["calls"][number]], letters, where="post", marker=".",
                      label=f"request {number}")  # fmt: skip
        axes.set(title=f"budget {budget}", xlabel="calls of the model", xticks=range(0, 16, 3))
    grid[0].set_ylabel("letters passed on")
    grid[1].legend(loc="lower right")
    plt.show()
    texts = [{i: p.replace("\n", "") for i, p in one["pieces"].items()} for one in told.values()]
    for number, pieces in told[64]["pieces"].items():
        print(f"request {number}: {pieces.split()}")
    print(verdict(texts[0] == texts[1] and not any("dab" in one["1"] for one in texts)))

# %% [markdown]
# ## 7. A draft that guesses · 草稿模型先猜
#
# The handout's numbers: $q = (0.6, 0.3, 0.1)$, $p = (0.2, 0.5, 0.3)$. All guesses and a fine grid
# of random numbers go through your `accept`; nothing is drawn at random. The draft says token 0
# three times as often as the target: guess how often it comes out.
#
# 讲义中的数：$q = (0.6, 0.3, 0.1)$，$p = (0.2, 0.5, 0.3)$。所有猜测与一组细密的随机数都经过你的
# `accept`，没有随机采样。猜一猜：草稿模型说 token 0 的次数是目标模型的三倍，最后它出现多少次？


# %%
def enumerated(accept, q: torch.Tensor, p: torch.Tensor, count: int, cells: int):
    """All outcomes of ``accept`` on ``count`` guesses from ``q``: ``(guesses, tokens, share)``.

    The random numbers stand in the middle of ``cells`` equal parts: exact where every limit is a
    border of these parts. The last one, which chooses a token, takes all of them only if one token
    is guessed.
    """
    middles = (torch.arange(cells).double() + 0.5) / cells
    lasts = middles if count == 1 else middles[:1]
    for guesses in product(range(len(q)), repeat=count):
        share = q[list(guesses)].prod().item() / cells**count / len(lasts)
        for parts in product(middles, repeat=count):
            for last in lasts:
                given = q.expand(count, -1), p.expand(count + 1, -1), torch.stack([*parts, last])
                yield guesses, accept(torch.tensor(guesses), *given), share


with your_code("lab7") as mine:
    q, p = torch.tensor([[0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], dtype=torch.float64)
    kept, replaced = torch.zeros(2, 3, dtype=torch.float64)
    for _, tokens, share in enumerated(mine.accept, q, p, 1, 12):
        (kept if len(tokens) == 2 else replaced)[tokens[0]] += share
    figure, axes = plt.subplots(figsize=(6, 2.8))
    for place, (name, share) in enumerate({"draft q": q, "target p": p}.items()):
        axes.bar(torch.arange(3) + 0.25 * (place - 1), share, width=0.23, label=name,
                 color=("lightgrey", "grey")[place])  # fmt: skip
    axes.bar(torch.arange(3) + 0.25, kept, width=0.23, label="kept guesses")
    axes.bar(torch.arange(3) + 0.25, replaced, width=0.23, bottom=kept, label="from the residual")
    axes.set(xlabel="token", ylabel="probability", xticks=range(3))
    axes.legend()
    plt.show()
    print([round(share, 4) for share in (kept + replaced).tolist()])
    print(verdict(torch.allclose(kept + replaced, p) and abs(kept.sum() - 0.6) < 1e-9))

# %% [markdown]
# Now the draft gets better: from equal probabilities for 4 tokens to the target's own. Dots: all
# outcomes of your `accept` with 1 and 2 guesses, counted. Lines: the handout's formula. Right: how
# many times as fast it is if a call of the draft costs a tenth of a call of the target. Guess: can
# more guesses make it slower?
#
# 现在让草稿模型逐渐变好：从四个 token 概率相等，直到与目标模型相同。圆点：你的 `accept` 猜 1 个、
# 2 个时的全部结果，逐一数出。线：讲义中的公式。右：如果草稿模型调用一次的代价是目标模型的十分之一，
# 能快多少倍。猜一猜：猜得更多，会不会反而变慢？

# %%
with your_code("lab7") as mine:
    p = torch.tensor([29, 1, 1, 1], dtype=torch.float64) / 32
    dots = {1: [], 2: []}
    for closer in range(8):  # by 3/32 of the first token each time
        q = torch.tensor([8 + 3 * closer] + [8 - closer] * 3, dtype=torch.float64) / 32
        stays = torch.minimum(p, q).sum().item()
        for count, places in dots.items():
            outcomes = enumerated(mine.accept, q, p, count, 8 - closer)
            made = sum(len(tokens) * share for _, tokens, share in outcomes)
            places.append((stays, made))
    shares = torch.linspace(0.3, 0.999, 200)
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3.2))
    for count in (1, 2, 4, 8):
        tokens = (1 - shares ** (count + 1)) / (1 - shares)
        left.plot(shares, tokens, label=f"{count} guessed")
    for places in dots.values():
        left.plot(*zip(*places, strict=True), "o", color="black", markersize=4)
    left.set(xlabel="share of guesses that stay", ylabel="tokens per call of the target")
    left.legend()
    for share in (0.5, 0.7, 0.9):
        counts = torch.arange(0, 17)
        gain = (1 - share ** (counts + 1)) / (1 - share) / (1 + 0.1 * counts)
        right.plot(counts, gain, marker=".", label=f"{share} stay")
    right.axhline(1, linestyle=":", color="black")
    right.set(xlabel="guesses per step", ylabel="times as fast")
    right.legend()
    plt.show()
    gaps = [abs(made - sum(stays**n for n in range(count + 1)))
            for count, places in dots.items() for stays, made in places]  # fmt: skip
    print(f"largest distance from the formula: {max(gaps):.9f}", verdict(max(gaps) < 1e-9))

# %% [markdown]
# The whole step, at temperature 0: 60 tokens with drafts that are more and more like the target.
# The text has to be the target's own every time. Guess how many calls of the target it takes with a
# draft that is nothing but noise.
#
# 完整的一步，温度为 0：生成 60 个 token，草稿模型越来越像目标模型。
# 每次的文本都必须与目标模型自己生成的一样。猜一猜：如果草稿模型全是噪声，要调用目标模型多少次？

# %%
with your_code("lab7") as mine:
    scores, noise = torch.randn(2, 211, 8)
    alone = [1]
    while len(alone) < 61:
        alone.append(int(TextModel(scores)(torch.tensor(alone))[-1].argmax()))
    called, same = [], True
    for mixed in (1.0, 0.75, 0.5, 0.25, 0.0):
        draft, target = TextModel((1 - mixed) * scores + mixed * noise), TextModel(scores)
        text = [1]
        while len(text) < 61:
            numbers = torch.rand(9, dtype=torch.float64)
            text += mine.speculative_step(draft, target, text, 4, 0.0, numbers)
        same &= text[:61] == alone
        called.append(len(target.calls))
        print(f"noise {mixed:4.0%}: {called[-1]} calls of the target, text the same: {same}")
    print(verdict(same and called == sorted(called, reverse=True) and called[-1] == 12))

# %% [markdown]
# ## 8. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab7

# %%
# %hint lab7
