# %% [markdown]
# # Lab 4: the whole model, in pictures · 实验 4：看得见的完整模型
#
# This notebook accompanies the handout of lab 4 (`labs/lab4_tinyllm/README.md`). You can run it
# from the start: a cell that needs a function you have not written yet says so, and the rest
# carries on. Write the function, save, and run the cell again: every cell reloads your files.
# Before you run a cell, guess what it will show.
#
# 本笔记本配合讲义使用，随时可以从头运行到尾：某个单元用到你还没有写的函数时，会说明并继续。
# 写好函数，保存，再运行这个单元：每个单元都会重新读取你的文件。运行之前，先猜一猜结果。

# %% set-up
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from tokenizers import Tokenizer

# The course folder: this one or one above · 课程文件夹：当前目录或其上级
ROOT = next(f for f in (Path.cwd(), *Path.cwd().parents) if (f / "labs" / "given").is_dir())
sys.path.insert(0, str(ROOT))
# %load_ext autograder
from autograder.cli.notebook import verdict, your_code

plt.rcParams["figure.constrained_layout.use"] = True

TINY = ROOT / "labs" / "given" / "tiny_qwen3"  # a trained Qwen3 of 1.4 million parameters
tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))


def load(mine):
    """Your whole model with the trained weights, of your attention and MLP."""
    return mine.load_hf_checkpoint(TINY, mine.Qwen3Attention, mine.Qwen3MLP, torch.float32)


# %% [markdown]
# ## 1. The parts · 全貌
#
# The modules of your model, under the names Hugging Face uses, and the number of parameters in
# each. The tiny checkpoint has everything that Qwen3-0.6B has, only less of it.
#
# 你的模型的模块（名字与 Hugging Face 相同）以及各部分的参数量。Qwen3-0.6B 有的，微型检查点都有，
# 只是更小。

# %%
with your_code("lab4") as mine:
    sizes = {}
    for name, parameter in load(mine).named_parameters():
        part = name.split(".")[3] if ".layers." in name else name.split(".")[-2]
        sizes[part] = sizes.get(part, 0) + parameter.numel()  # all layers together
    figure, axes = plt.subplots(figsize=(7, 2.6))
    bars = axes.barh(list(sizes), list(sizes.values()))
    axes.bar_label(bars, labels=[f"{size:,}" for size in sizes.values()], padding=3)
    axes.invert_yaxis()
    axes.set(xlabel="parameters, all layers together", xlim=(0, 1_100_000))
    axes.ticklabel_format(axis="x", style="plain")
    plt.show()
    print(f"in all {sum(sizes.values()):,}", verdict(sum(sizes.values()) == 1_394_336))

# %% [markdown]
# ## 2. Masks with padding · 带填充的掩码
#
# Three texts of different length in one batch. Rows are queries, columns are keys, dark is visible.
# Shorter texts are padded on the left or on the right: padding is seen only by itself, and tokens
# count from 0 wherever they begin. Every query sees something, or the softmax would average
# everything.
#
# 一个批次中有三段长短不同的文本。行是查询，列是键，深色表示可见。较短的文本在左侧或右侧填充：
# 填充只能被自己看到；token 无论从哪里开始，都从 0 数起。每个查询至少要能看到一个键，
# 否则 softmax 会对所有键取平均。

# %%
with your_code("lab4") as mine:
    present = torch.tensor([[1, 1, 1, 1, 1, 1], [0, 0, 1, 1, 1, 1], [1, 1, 1, 0, 0, 0]])  # [B, K]
    masks = mine.build_attention_mask(present, 6, torch.float32)  # [B, 1, 6, 6]
    positions = mine.build_position_ids(present, 6)  # [B, 6]
    figure, grid = plt.subplots(1, 3, figsize=(10, 3.4))
    for row, (axes, title) in enumerate(
        zip(grid, ("no padding", "padded on the left", "padded on the right"), strict=True)
    ):
        axes.imshow(masks[row, 0] == 0, cmap="Blues", vmin=0, vmax=1)
        labels = [
            str(place) if real else "pad"
            for place, real in zip(positions[row].tolist(), present[row].tolist(), strict=True)
        ]
        axes.set_xticks(range(6), labels)
        axes.set_yticks(range(6), labels)
        axes.set(title=title, xlabel="position of the key", ylabel="position of the query")
    plt.show()
    seen = (masks[:, 0] == 0).sum(dim=-1)  # [B, 6]: how many keys a query sees
    right = [[1, 2, 3, 4, 5, 6], [1, 1, 1, 2, 3, 4], [1, 2, 3, 4, 4, 4]]
    print("keys seen:", seen.tolist())
    print(verdict(seen[0].tolist() == right[0] and seen[1].tolist() == right[1]))

# %% [markdown]
# With a cache, the queries are the last few tokens: the mask is the bottom part of the whole one.
#
# 有缓存时，查询是最后几个 token：掩码就是完整掩码的最下面几行。

# %%
with your_code("lab4") as mine:
    present = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1]])
    figure, grid = plt.subplots(1, 3, figsize=(11, 3))
    tall = mine.build_attention_mask(present, 8, torch.float32)[0, 0]  # [8, 8]
    same = True
    for axes, queries in zip(grid, (8, 3, 1), strict=True):
        mask = mine.build_attention_mask(present, queries, torch.float32)[0, 0]  # [queries, 8]
        axes.imshow(mask == 0, cmap="Blues", vmin=0, vmax=1)
        axes.set(title=f"the last {queries} of 8 tokens", xlabel="key", yticks=range(queries))
        same &= torch.equal(mask, tall[-queries:])
    grid[0].set_ylabel("query")
    plt.show()
    print(verdict(same))

# %% [markdown]
# ## 3. The residual stream · 残差流
#
# Every layer *adds* to what comes in. What would the model say if it stopped early? Apply the final
# norm and the output head after every layer, and see how the answer takes shape.
#
# 每一层都在输入上做*加法*。如果提前停下，模型会说什么？在每一层之后都接上最后的归一化和输出头，
# 看看答案是怎样逐层形成的。

# %%
with your_code("lab4") as mine:
    model = load(mine)
    text = tokenizer.encode("He saw the white whale, and then the white")
    states = []  # after every layer: [1, T, hidden]
    for layer in model.model.layers:
        layer.register_forward_hook(lambda module, given, made: states.append(made))
    last = model(torch.tensor([text.ids]))  # [1, T, vocab]
    words = [piece.replace("Ġ", "") for piece in text.tokens]
    figure, axes = plt.subplots(figsize=(13, 3))
    chances = torch.stack(
        [torch.softmax(model.lm_head(model.model.norm(state))[0], dim=-1) for state in states]
    )  # [layers, T, vocab]
    best = chances.max(dim=-1)  # of each layer and place: the likeliest next token
    image = axes.imshow(best.values, cmap="Blues", aspect="auto", vmin=0, vmax=1, alpha=0.7)
    for layer, tokens in enumerate(best.indices.tolist()):
        for place, token in enumerate(tokens):
            axes.text(place, layer, tokenizer.decode([token]), ha="center", va="center")
    axes.set_xticks(range(len(words)), words)
    axes.set_yticks(range(4), [f"after layer {layer}" for layer in range(4)])
    figure.colorbar(image, label="probability")
    plt.show()
    print(verdict(torch.equal(best.indices[-1], last[0].argmax(dim=-1))))

# %% [markdown]
# Qwen3 normalises what each part *reads* (pre-norm); the first Transformer normalised the *sum*
# (post-norm). Stack twenty-four of your layers with random weights, wired both ways: how large are
# the hidden states after each layer, and how large are the gradients that come back to them? With
# pre-norm, the stream grows only slowly. With post-norm, its size is fixed, but gradients are
# multiplied on the way back, so no learning rate suits all layers: one reason why deep post-norm
# models need a warm-up.
#
# Qwen3 对每个部分的*输入*做归一化（pre-norm）；最早的 Transformer 对*相加之后的和*做归一化
# （post-norm）。把你写的层随机初始化，叠 24 层，两种接法各算一遍：每一层之后的隐藏状态有多大，
# 传回那里的梯度又有多大？pre-norm 的残差流只是缓慢变大；post-norm 的大小固定，但梯度往回传时
# 逐层放大，没有一个学习率适合所有层：这是很深的 post-norm 模型需要预热的原因之一。

# %%
with your_code("lab4") as mine, torch.enable_grad():
    from labs.given.config import Qwen3Config

    config = Qwen3Config(64, 64, 192, 24, 4, 2, 16)  # 24 layers of width 64
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 3))
    for wiring in ("pre-norm", "post-norm"):
        torch.manual_seed(0)
        layers = [
            mine.Qwen3DecoderLayer(config, n, mine.Qwen3Attention, mine.Qwen3MLP) for n in range(24)
        ]
        for weight in (p for layer in layers for p in layer.parameters() if p.dim() == 2):
            torch.nn.init.normal_(weight, std=weight.shape[1] ** -0.5)
        states = [torch.randn(2, 16, 64, requires_grad=True)]  # [B, T, hidden], before and behind
        for layer in layers:
            x = states[-1]
            if wiring == "pre-norm":
                x = layer(x)
            else:
                x = layer.input_layernorm(x + layer.self_attn(x))
                x = layer.post_attention_layernorm(x + layer.mlp(x))
            x.retain_grad()
            states.append(x)
        last = torch.nn.functional.rms_norm(states[-1], (64,))
        (last * torch.randn_like(last)).sum().backward()
        left.plot([float(x.detach().square().mean().sqrt()) for x in states], label=wiring)
        right.plot([float(x.grad.square().mean().sqrt()) for x in states], label=wiring)
        grown = float(states[-1].detach().std() / states[0].detach().std())
        if wiring == "pre-norm":
            print("the stream has grown to", f"{grown:.1f} times its size", verdict(grown > 3))
    left.set(xlabel="layer", ylabel="size of the hidden state")
    right.set(xlabel="layer", ylabel="size of its gradient", yscale="log")
    left.legend()
    plt.show()

# %% [markdown]
# ## 4. Rows do not affect each other · 各行互不影响
#
# A text on its own, and the same text padded on the left in a batch with a longer one, must give
# the same logits. If not, the mask or the positions are wrong.
#
# 同一段文本，单独运行，或在左侧填充后与更长的文本同处一个批次：logit 应当相同。否则掩码或位置有错。

# %%
with your_code("lab4") as mine:
    model = load(mine)
    long = tokenizer.encode("There she blows! A hump like a snow-hill!").ids
    short = tokenizer.encode("The white whale").ids
    pads = len(long) - len(short)
    batch = torch.tensor([long, [0] * pads + short])
    present = torch.tensor([[1] * len(long), [0] * pads + [1] * len(short)])
    together = model(batch, attention_mask=present)[1, pads:]  # [T, vocab]
    alone = model(torch.tensor([short]))[0]
    careless = model(batch)[1, pads:]  # nobody said what is padding
    print(f"with the mask, off by    {(together - alone).abs().max():.6f}")
    print(f"without it, off by       {(careless - alone).abs().max():.6f}")
    print(verdict(bool((together - alone).abs().max() < 1e-3)))

# %% [markdown]
# ## 5. Choosing a token · 选择 token
#
# One row of logits, 4000 draws by your `sample`. Temperature reshapes the whole row; `top_k` keeps
# a fixed number of tokens; `top_p` keeps the smallest number whose probabilities add up to it: few
# where the model is sure, many where it is not.
#
# 同一行 logit，用你的 `sample` 采样 4000 次。温度改变整行；`top_k` 保留固定的个数；
# `top_p` 保留概率之和达到这个值的最少个数：模型有把握时少，没把握时多。

# %%
with your_code("lab4") as mine:
    logits = load(mine)(torch.tensor([tokenizer.encode("The white").ids]))[:, -1]  # [1, vocab]
    likely = logits[0].topk(14).indices
    pieces = [tokenizer.decode([token]) for token in likely.tolist()]
    ways = {
        "temperature 1": {"temperature": 1.0},
        "temperature 0.5": {"temperature": 0.5},
        "top_k 4": {"temperature": 1.0, "top_k": 4},
        "top_p 0.5": {"temperature": 1.0, "top_p": 0.5},
    }
    figure, grid = plt.subplots(1, 4, figsize=(14, 3), sharey=True)
    kinds = {}
    for axes, (name, how) in zip(grid, ways.items(), strict=True):
        drawn = mine.sample(logits.expand(4000, -1), **how)  # [4000]
        kinds[name] = len(drawn.unique())
        axes.bar(range(14), (drawn[:, None] == likely).float().mean(dim=0))
        axes.set_xticks(range(14), pieces, rotation=60, ha="right")
        axes.set_title(f"{name}: {kinds[name]} different tokens")
    grid[0].set_ylabel('share of 4000, after "The white"')
    plt.show()
    print(verdict(kinds["top_k 4"] == 4 and kinds["top_p 0.5"] < kinds["temperature 1"]))

# %% [markdown]
# ## 6. Generating text · 生成文本
#
# Prefill, then one token per step. Two prompts of different length in one batch, at three
# temperatures.
#
# 先预填充，再每步解码一个 token。同一批次中有两段长短不同的提示，用三种温度生成。

# %%
with your_code("lab4") as mine:
    model = load(mine)
    prompts = [tokenizer.encode(text).ids for text in ("The white whale", "Call me")]
    longest = max(map(len, prompts))
    batch = torch.tensor([[0] * (longest - len(ids)) + ids for ids in prompts])  # [2, T]
    present = torch.tensor([[0] * (longest - len(ids)) + [1] * len(ids) for ids in prompts])
    for temperature in (0.0, 0.7, 1.3):
        chance = torch.Generator().manual_seed(0)
        texts = mine.generate(
            model, batch, 30, attention_mask=present, temperature=temperature, generator=chance
        )
        print(f"--- temperature {temperature}")
        for row in texts.tolist():
            print(tokenizer.decode(row).replace("\n", " / "))
    greedy = mine.generate(model, torch.tensor([prompts[1]]), 30)[0]
    batched = mine.generate(model, batch, 30, attention_mask=present)[1]
    print(verdict(batched.tolist()[-30:] == greedy.tolist()[-30:]))

# %% [markdown]
# How many tokens does the model get in each call? First the prompt, then one at a time: that is the
# cache at work.
#
# 模型每次被调用时收到多少 token？先是整个提示，然后每次一个：这就是缓存的作用。

# %%
with your_code("lab4") as mine:
    model = load(mine)
    counts = []
    model.register_forward_pre_hook(lambda module, given: counts.append(given[0].shape[1]))
    mine.generate(model, torch.tensor([tokenizer.encode("The white whale").ids]), 20)
    plt.figure(figsize=(6, 2.2))
    plt.bar(range(len(counts)), counts)
    plt.xlabel("call of the model")
    plt.ylabel("new tokens")
    plt.show()
    print(counts, verdict(counts == [3] + [1] * 19))

# %% [markdown]
# ## 7. And now? · 接下来
#
# These experiments are not the checks. The next cells run the checks on your saved files and give a
# hint for what is still open; ask again, and the hint says more.
#
# 这些小实验不是检查。下面的单元用你保存的文件运行检查，并为还没有完成的部分给出提示；再次运行，
# 提示会更详细。

# %%
# %check lab4

# %%
# %hint lab4
