# %% [markdown]
# # Lab 1: attention and MLP, in pictures · 实验 1：看得见的注意力与 MLP
#
# This notebook accompanies the handout of lab 1 (`labs/lab1_foundations/README.md`). You can run it
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
from safetensors.torch import load_file
from tokenizers import Tokenizer

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code

# %% [markdown]
# ## 1. Softmax · softmax
#
# Logits become weights: positive, adding up to 1. Only *differences* between logits count; the
# further apart they are, the larger the share of the largest.
#
# logit 变成权重：都为正，总和为 1。只有 logit 之间的*差*起作用；差得越大，最大的那个占得越多。

# %%
with your_code("lab1") as mine:
    logits = torch.tensor([0.0, 1.0, 2.0, 3.0])
    figure, grid = plt.subplots(1, 4, figsize=(11, 2.2), sharey=True)
    for axes, (title, x) in zip(
        grid,
        {
            "x": logits,
            "x + 100": logits + 100,
            "x / 3": logits / 3,
            "x * 3": logits * 3,
        }.items(),
        strict=True,
    ):
        axes.bar(range(4), mine.softmax(x, dim=-1))
        axes.set(title=title, xticks=range(4), ylim=(0, 1))
    plt.show()

# %% [markdown]
# The definition says to compute $e^{x}$, and float32 ends at $e^{88.7}$. What now? Since only
# differences count, you may shift all logits before you begin.
#
# 按定义需要计算 $e^{x}$，而 float32 到 $e^{88.7}$ 就到头了。怎么办？既然只有差起作用，
# 开始之前可以先整体平移。

# %%
far = torch.tensor([10_000.0, 9_999.0, -torch.inf])
print("exp of these:", far.exp().tolist())
with your_code("lab1") as mine:
    got = mine.softmax(far, dim=-1)
    print("yours:       ", [round(weight, 4) for weight in got.tolist()])
    print(verdict(torch.allclose(got, torch.tensor([0.7311, 0.2689, 0.0]), atol=1e-4)))

# %% [markdown]
# ## 2. Who may look at whom · 谁能看到谁
#
# Rows are queries, columns are keys. With fewer queries than keys, the queries are the *last*
# tokens: the staircase is at the right end.
#
# 行是查询，列是键。查询比键少时，查询是*最后*的那些 token：阶梯靠右。

# %%
with your_code("lab1") as mine:
    figure, grid = plt.subplots(1, 3, figsize=(10, 2.8))
    for axes, (queries, keys) in zip(grid, ((6, 6), (2, 6), (1, 6)), strict=True):
        axes.imshow(mine.causal_mask(queries, keys), cmap="Blues", vmin=0, vmax=1)
        axes.set(title=f"causal_mask({queries}, {keys})", xlabel="key", ylabel="query")
        axes.set(xticks=range(keys), yticks=range(queries))
    plt.show()
    right = [[True] * 5 + [False], [True] * 6]
    print(verdict(mine.causal_mask(2, 6).tolist() == right))

# %% [markdown]
# ## 3. Attention maps · 注意力图
#
# Your function returns averages of the values, not the weights. A trick makes the weights visible:
# use the values as labels. With the rows of the identity as values, token $j$ contributes a 1 in
# place $j$, so each output *is* the row of weights.
#
# Here queries and keys are the embeddings of a sentence, cut into five heads of 32 features:
# although no attention was trained, words look for words that resemble them.
#
# 你的函数返回的是值的平均，而不是权重。有个办法可以看到权重：把值当作标签。用单位矩阵的各行作值，
# 第 $j$ 个 token 的值在第 $j$ 位是 1，于是每一行输出*就是*那一行权重。
#
# 这里的查询与键是一句话的词嵌入，切成五个头，每个 32 个特征：注意力未经训练，
# 词会去看与自己相像的词。

# %%
TINY = ROOT / "labs" / "given" / "tiny_qwen3"
tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
pieces = tokenizer.encode(" the whale and the ship, the boat and the sea")
table = load_file(TINY / "model.safetensors")["model.embed_tokens.weight"].float()
x = table[pieces.ids]  # [T, 160]
tokens = len(pieces.ids)
heads = x.view(tokens, 5, 32).transpose(0, 1) * 0.6 / x.std()  # [heads, T, head_dim]
labels = torch.eye(tokens)  # [T, T]: the values are labels
words = [piece.replace("Ġ", "") for piece in pieces.tokens]

with your_code("lab1") as mine:
    figure, grid = plt.subplots(2, 5, figsize=(13, 5.6), sharex=True, sharey=True)
    causal = mine.causal_mask(tokens, tokens)
    for line, (name, mask) in zip(grid, {"no mask": None, "causal": causal}.items(), strict=True):
        weights = mine.scaled_dot_product_attention(heads, heads, labels, mask)  # [heads, T, T]
        for head, axes in enumerate(line):
            axes.imshow(weights[head], cmap="viridis", vmin=0, vmax=1)
            axes.set(title=f"head {head}, {name}")
            axes.set_xticks(range(tokens), words, rotation=90)
            axes.set_yticks(range(tokens), words)
    plt.show()
    future = weights[:, ~torch.ones(tokens, tokens).tril().bool()]
    rows = weights.sum(dim=-1)
    print(verdict(bool((future == 0).all()) and torch.allclose(rows, torch.ones_like(rows))))

# %% [markdown]
# In both, every row adds up to 1. With the mask, the first token can look only at itself, and the
# last row is the same in both: it saw everything anyway.
#
# 两种情况下每行之和都是 1。有掩码时，第一个 token 只能看自己；最后一行则完全相同：
# 它本来就能看到全部。
#
# ## 4. Why divide by the root of d · 为什么除以根号 d
#
# The dot product of two random vectors of $d$ numbers has the standard deviation $\sqrt d$. Without
# the division, the scores of wide heads drive the softmax into a corner: one key takes everything,
# and nothing is left to learn from.
#
# 两个 $d$ 维随机向量的点积，标准差是 $\sqrt d$。不除以它，宽的头会把 softmax 逼到角落：
# 一个键独占全部权重，也就学不到东西了。

# %%
with your_code("lab1") as mine:
    widths = [4, 16, 64, 256]
    largest: dict[str, list[float]] = {"divided (yours)": [], "not divided": []}
    for width in widths:
        q, k = torch.randn(2, 500, width)  # 500 tokens
        labels = torch.eye(500)
        yours = mine.scaled_dot_product_attention(q, k, labels)
        # Queries that are larger by the root undo the division.
        raw = mine.scaled_dot_product_attention(q * math.sqrt(width), k, labels)
        largest["divided (yours)"].append(yours.amax(dim=-1).mean().item())
        largest["not divided"].append(raw.amax(dim=-1).mean().item())
    for name, values in largest.items():
        plt.plot(widths, values, marker="o", label=name)
    plt.xscale("log", base=2)
    plt.xlabel("head_dim")
    plt.ylabel("largest weight of a query, of 500 keys")
    plt.ylim(0, 1)
    plt.legend()
    plt.show()
    print(verdict(largest["divided (yours)"][-1] < 0.1 < 0.5 < largest["not divided"][-1]))

# %% [markdown]
# ## 5. Many heads, one layer · 多个头，一个层
#
# Change one token and see which outputs move. A `view` that mixes up tokens and heads shows here at
# once, although every shape is right.
#
# 改动一个 token，看哪些输出随之变化。若 `view` 把 token 与头弄混，这里立刻能看出来，尽管形状都对。

# %%
with your_code("lab1") as mine:
    layer = mine.MultiHeadAttention(40, 6, 16)
    x = torch.randn(1, 8, 40)  # [B, T, hidden]
    figure, grid = plt.subplots(1, 2, figsize=(7, 3.4))
    pictures = []
    for axes, (name, mask) in zip(
        grid, {"no mask": None, "causal": mine.causal_mask(8, 8)}.items(), strict=True
    ):
        before = layer(x, mask)
        picture = torch.zeros(8, 8)  # [output, changed token]
        for token in range(8):
            changed = x.clone()
            changed[:, token] += 1
            picture[:, token] = (layer(changed, mask) - before)[0].norm(dim=-1)
        axes.imshow(picture, cmap="magma")
        axes.set(title=name, xlabel="changed token", ylabel="output")
        pictures.append(picture > 1e-6)
    plt.show()
    print(verdict(bool(pictures[0].all()) and torch.equal(pictures[1], pictures[1].tril())))

# %% [markdown]
# ## 6. Two norms · 两种归一化
#
# LayerNorm subtracts the mean and divides by the standard deviation; RMSNorm only divides. Add 5 to
# every feature: one of them does not notice. Multiply by 3: neither does.
#
# LayerNorm 减去均值再除以标准差；RMSNorm 只做除法。每个特征都加 5：其中一种归一化毫无察觉。
# 都乘以 3：两种都没有察觉。

# %%
with your_code("lab1") as mine:
    x = torch.tensor([-2.0, -1.0, 0.5, 1.0, 3.0])
    inputs = {"x": x, "x + 5": x + 5, "3 x": 3 * x}
    figure, grid = plt.subplots(1, 3, figsize=(11, 2.6), sharey=True)
    norms = {"x": lambda t: t, "LayerNorm": mine.LayerNorm(5), "RMSNorm": mine.RMSNorm(5)}
    for axes, (title, norm) in zip(grid, norms.items(), strict=True):
        for place, (name, value) in enumerate(inputs.items()):
            axes.bar(torch.arange(5) + 0.27 * (place - 1), norm(value), width=0.25, label=name)
        axes.axhline(0, color="black", linewidth=0.5)
        axes.set(title="input" if title == "x" else title, xlabel="feature")
    grid[0].legend()
    plt.show()
    layer_norm, rms_norm = norms["LayerNorm"], norms["RMSNorm"]
    blind = torch.allclose(layer_norm(x + 5), layer_norm(x), atol=1e-4)
    sees = not torch.allclose(rms_norm(x + 5), rms_norm(x), atol=1e-1)
    print(verdict(blind and sees))

# %% [markdown]
# ## 7. The gate · 门控
#
# SiLU lets large positive numbers through, stops large negative ones, and dips below zero in
# between. In the gated MLP it decides how much of the other branch goes through.
#
# SiLU 放行大的正数，把大的负数压到接近零，中间略低于零。在门控 MLP 中，它决定另一个分支放行多少。

# %%
with your_code("lab1") as mine:
    z = torch.linspace(-6, 6, 200)
    plt.figure(figsize=(6, 3))
    for name, curve in {
        "silu (yours)": mine.silu(z),
        "sigmoid": torch.sigmoid(z),
        "gelu": torch.nn.functional.gelu(z),
        "relu": z.clamp(min=0),
    }.items():
        plt.plot(z, curve, label=name)
    plt.ylim(-0.5, 3)
    plt.axhline(0, color="black", linewidth=0.5)
    plt.legend()
    plt.show()
    lowest = z[mine.silu(z).argmin()].item()
    print(f"lowest at {lowest:.2f}", verdict(abs(lowest + 1.28) < 0.05))

# %% [markdown]
# GELU (BERT, GPT-2) weighs x by the distribution function of the normal distribution, SiLU (Qwen3,
# Llama) by the sigmoid. Both belong to one family, x · sigmoid(β x): SiLU is β = 1, GELU is nearly
# β = 1.702, and with a huge β it is ReLU. In a trained model you cannot replace one by another: its
# weights were learned around it.
#
# GELU（BERT、GPT-2）用正态分布函数给 x 加权，SiLU（Qwen3、Llama）用 sigmoid。它们同属一族
# x · sigmoid(β x)：β = 1 是 SiLU，β = 1.702 几乎就是 GELU，β 很大时则是 ReLU。
# 训练好的模型不能把两者互换，因为权重是围绕其中之一学出来的。

# %%
with your_code("lab1") as mine:
    z = torch.linspace(-6, 6, 2001)
    gelu = torch.nn.functional.gelu(z)
    family = {beta: mine.silu(beta * z) / beta for beta in (1.0, 1.702, 100.0)}
    apart = {beta: (curve - gelu).abs().max().item() for beta, curve in family.items()}
    for beta, distance in apart.items():
        print(f"x * sigmoid({beta:g} x) is at most {distance:.3f} from GELU")
    print(verdict(apart[1.702] < 0.021 and apart[1.0] > 0.1))

# %%
with your_code("lab1") as mine:
    layer = mine.FeedForward(1, 1)
    for name, value in {"gate_proj": 1.0, "up_proj": 1.0, "down_proj": 1.0}.items():
        getattr(layer, name).weight.fill_(value)
    gates = torch.linspace(-6, 6, 61)  # what goes in is both gate and up
    out = layer(gates[:, None])[:, 0]
    plt.figure(figsize=(6, 3))
    plt.plot(gates, out, label="yours: one input, gate and up alike")
    plt.plot(gates, gates.clamp(min=0) ** 2, ":", label="relu(x) * x")
    plt.ylim(-1, 12)
    plt.legend()
    plt.show()
    at_two = layer(torch.tensor([2.0])).item()
    print(f"at 2: {at_two:.4f}", verdict(abs(at_two - 3.5232) < 1e-3))

# %% [markdown]
# ## 8. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab1

# %%
# %hint lab1
