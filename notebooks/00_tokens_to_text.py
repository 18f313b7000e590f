# %% [markdown]
# # From tokens to text · 从 token 到文本
#
# A language model reads numbers and writes numbers. This notebook follows a text all the way: text
# to tokens, tokens to vectors, vectors to scores, scores to the next token, and back to text. It
# needs little of your code: the tokenizer of lab 1, where you have it, and the model of lab 2 at
# the end.
#
# Open it with `make notebook`. Before you run a cell, guess what it will show.
#
# 语言模型读的是数字，写的也是数字。本笔记本跟着一段文本走完全程：文本变成 token，token 变成向量，
# 向量变成分数，分数变成下一个 token，最后回到文本。用到你的代码的地方很少：
# 实验 1 的分词器（写好了才用），以及最后一节中实验 2 的模型。
#
# 用 `make notebook` 打开。运行每个单元之前，先猜一猜结果。

# %% set-up
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

TINY = ROOT / "labs" / "given" / "tiny_qwen3"  # a trained Qwen3 of 1.4 million parameters
torch.manual_seed(0)
plt.rcParams["figure.constrained_layout.use"] = True

# %% [markdown]
# ## 1. Text to tokens · 文本变成 token
#
# A tokenizer cuts a text into pieces that it knows and replaces each by its number. This one knows
# 1024 pieces, learned from *Moby-Dick*; Qwen3's knows 151,669. In the names of pieces, `Ġ` is a
# space: most words include the space in front of them, so `the` and ` the` are two different
# tokens.
#
# 分词器（tokenizer）把文本切成它认识的片段，并换成编号。这个分词器从《白鲸》中学到 1024 个片段；
# Qwen3 的有 151,669 个。片段名中的 `Ġ` 表示空格：多数单词带着前面的空格，
# 因此 `the` 与 ` the` 是两个不同的 token。

# %%
tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
text = "Call me Ishmael. The white whale!"
found = tokenizer.encode(text)
for number, piece in zip(found.ids, found.tokens, strict=True):
    print(f"{number:5}  {piece}")
print(tokenizer.decode(found.ids))
print(verdict(tokenizer.decode(found.ids) == text))

# %% [markdown]
# No text is unknown to it: what is not a piece is split into bytes, and every byte is a token. A
# Chinese character has three bytes in UTF-8, so part of it is not a character at all. To print
# tokens as they come, wait until a character is complete.
#
# 没有它不认识的文字：不在片段表里的部分会拆成字节，每个字节都是一个 token。
# 一个汉字在 UTF-8 中占三个字节，只有其中一部分还不成字。因此边生成边输出时，
# 要等一个字凑齐了再显示。

# %%
whale = tokenizer.encode("鲸鱼").ids
for count in range(1, len(whale) + 1):
    print(f"{count} tokens: {tokenizer.decode(whale[:count])}")

# %% [markdown]
# Once lab 1's `tokens.py` is done, your own tokenizer does the same with the same vocabulary. It
# holds the bytes of an open character back, so a stream never shows half of one.
#
# 完成实验 1 的 `tokens.py` 之后，你自己的分词器用同样的词表可以做到同样的事。
# 没凑齐的字节会先留着，所以流式输出不会显示半个字。

# %%
from labs.given.tokenizer import load_vocabulary

with your_code("lab1") as mine:
    own = mine.Tokenizer(*load_vocabulary(TINY))
    print("the same ids and the same text:", end=" ")
    print(verdict(own.encode(text) == found.ids and own.decode(found.ids) == text))
    stream = mine.StreamDecoder(own)
    for number in whale:
        print(f"{number:5}  {stream.push(number)!r}")

# %% [markdown]
# The closer a text is to what the tokenizer has seen, the fewer tokens it takes. Fewer tokens make
# a text cheaper: every token costs a pass through the model.
#
# 文本越接近分词器见过的内容，所需的 token 越少，也就越便宜：每个 token 都要经过一遍模型。

# %%
heldout = (TINY / "heldout.txt").read_text(encoding="utf-8")  # chapters that nobody trained on
samples = {
    "Moby-Dick": heldout[:2000],
    "English, today": "The committee will publish the updated schedule on its website tomorrow. "
    * 9,
    "Python": "def mean(xs):\n    return sum(xs) / len(xs)\n" * 9,
    "Chinese": "老人与海，鲸鱼与船，水手们望着远方的地平线。" * 9,
}
per_token = [len(sample) / len(tokenizer.encode(sample).ids) for sample in samples.values()]
figure, axes = plt.subplots(figsize=(6, 2))
bars = axes.barh(list(samples), per_token)
axes.bar_label(bars, fmt="%.2f", padding=3)
axes.set(xlabel="characters per token", xlim=(0, 3))
axes.invert_yaxis()
plt.show()

# %% [markdown]
# ## 2. Special tokens · 特殊 token
#
# Some tokens are not text. Token 0 here, `<|endoftext|>`, marks the end of a text: a model that
# writes it is done. It is a single token although it has 13 characters, and `decode` leaves it out
# unless told not to. A chat model has more of them, to say who is speaking.
#
# 有些 token 不代表文字。这里的 0 号 `<|endoftext|>` 表示文本结束：模型写出它就停下。
# 它虽有 13 个字符，却只是一个 token；`decode` 默认不显示它。对话模型还有更多特殊 token，
# 用来标明说话人。

# %%
ended = tokenizer.encode("The end.<|endoftext|>")
print("tokens     ", ended.tokens)
print("decoded    ", tokenizer.decode(ended.ids))
print("in full    ", tokenizer.decode(ended.ids, skip_special_tokens=False))
print(verdict(ended.ids[-1] == 0 and len(tokenizer.decode(ended.ids)) == len("The end.")))

# %% [markdown]
# ## 3. Tokens to vectors · token 变成向量
#
# A number says nothing about what a token means: 859 (` white`) is not *more* than 380 (` whale`).
# The embedding is a table with a row of 160 features for every token; to embed a token is to look
# up its row. Training has moved words with similar uses close to each other.
#
# 编号本身没有含义：859（` white`）并不比 380（` whale`）“大”。词嵌入是一张表，每个 token 有一行，
# 含 160 个特征；嵌入就是查表。训练使用法相近的词彼此靠近。

# %%
table = load_file(TINY / "model.safetensors")["model.embed_tokens.weight"].float()  # [1024, 160]
words = [" whale", " ship", " boat", " sea", " he", " they", " was", " is", " three", " two"]
ids = [tokenizer.encode(word).ids for word in words]
print("every word is one token:", verdict(all(len(one) == 1 for one in ids)))
rows = table[[one[0] for one in ids]]  # [words, 160]
unit = rows / rows.norm(dim=-1, keepdim=True)  # of length 1
alike = unit @ unit.T  # [words, words]: the cosine of the angle between two words

figure, axes = plt.subplots(figsize=(5.5, 4.5))
image = axes.imshow(alike, cmap="RdBu", vmin=-1, vmax=1)
axes.set_xticks(range(len(words)), words, rotation=45, ha="right")
axes.set_yticks(range(len(words)), words)
axes.set_title("cosine of two embeddings")
figure.colorbar(image)
plt.show()

# %% [markdown]
# ## 4. Vectors to scores, and what layers are for · 向量变成分数，以及层的作用
#
# The output head compares a vector with every row of a table: 1024 scores, one per token, called
# **logits**. In this model, as in Qwen3-0.6B, it is the *same* table: the head is tied to the
# embedding. So what does a model without layers say next? Guess first.
#
# 输出头把一个向量与表中的每一行比较，得到 1024 个分数，每个 token 一个，称为 **logit**。
# 这个模型与 Qwen3-0.6B 一样，用的是*同一张*表：输出头与词嵌入共享权重。那么没有任何层的模型，
# 下一个 token 会是什么？先猜一猜。

# %%
x = table[tokenizer.encode("the white whale").ids]  # [T, 160]
logits = x @ table.T  # [T, 1024]
for token in logits.argmax(dim=-1).tolist():
    print(tokenizer.id_to_token(token))
itself = (table @ table.T).argmax(dim=-1) == torch.arange(1024)  # [1024]
print(f"\nsay themselves again: {itself.float().mean():.0%} of all tokens")

# %% [markdown]
# Most tokens are most similar to themselves (for the others, some longer row wins). Turning "what
# is here" into "what comes next" is the work of the layers, and you will write every line of them.
#
# 多数 token 与自己最像（其余的输给了某个更长的行）。把“这里是什么”变成“接下来是什么”，
# 正是各层要做的事：每一行代码都将由你来写。
#
# ## 5. A model that counts · 一个会计数的模型
#
# Until then we use the simplest model there is: it looks at one token and knows how often every
# other one came after it. Its table has a row for each token, and in each row a logit for each next
# token.
#
# 在此之前，先用最简单的模型：只看前一个 token，统计每个 token 跟在它后面的次数。它的表中，
# 每个 token 占一行，行中是下一个 token 的各个 logit。

# %%
stream = torch.tensor(tokenizer.encode(heldout).ids)  # [tokens]
counts = torch.full((1024, 1024), 1e-3)  # a little for what was never seen: its logarithm exists
counts.index_put_((stream[:-1], stream[1:]), torch.tensor(1.0), accumulate=True)
bigram = counts.log()  # [token, next token]: logits


def next_by_counting(ids: list[int]) -> torch.Tensor:
    """Logits ``[vocab]`` of what comes after ``ids``."""
    return bigram[ids[-1]]


# %% [markdown]
# ## 6. Temperature · 温度
#
# Softmax turns logits into probabilities. First divide the logits by a temperature: below 1, the
# likely becomes likelier; above 1, everything evens out; at 0, only the most likely is left
# (greedy). At 1, the model says what it has learned.
#
# softmax 把 logit 变成概率。先把 logit 除以温度：小于 1 时，可能的更可能；大于 1 时，趋于平均；
# 等于 0 时只剩最可能的那个（贪心）。等于 1 时，就是模型学到的分布。

# %%
after = next_by_counting(tokenizer.encode("and the").ids)  # [1024]
likely = after.topk(12).indices
figure, grid = plt.subplots(1, 3, figsize=(11, 3.2), sharey=True)
for axes, temperature in zip(grid, (0.5, 1.0, 2.0), strict=True):
    shares = torch.softmax(after / temperature, dim=0)
    bits = -(shares * shares.clamp(min=1e-30).log2()).sum()
    pieces = [tokenizer.decode([token]) for token in likely.tolist()]
    axes.bar(range(12), shares[likely])
    axes.set_xticks(range(12), pieces, rotation=60, ha="right")
    axes.set_title(f"temperature {temperature}: {bits:.1f} bits")
grid[0].set_ylabel('probability after " the"')
plt.show()

# %% [markdown]
# ## 7. Sampling · 采样
#
# Sampling is like spinning a wheel of fortune whose sectors are as wide as the probabilities. Over
# many draws, the shares approach them.
#
# 采样就像转一个转盘，每一格的大小等于它的概率。采样次数多了，每个 token 出现的比例就接近概率。


# %%
def draw(logits: torch.Tensor, temperature: float) -> int:
    """One token out of ``logits`` ``[vocab]``."""
    if not temperature:
        return int(logits.argmax())
    return int(torch.multinomial(torch.softmax(logits / temperature, dim=0), 1))


drawn = torch.tensor([draw(after, 1.0) for _ in range(3000)])
share = (drawn[:, None] == likely).float().mean(dim=0)  # [12]
wanted = torch.softmax(after, dim=0)[likely]
for piece, is_, should in zip(pieces, share.tolist(), wanted.tolist(), strict=True):
    print(f"{piece:8} drawn {is_:.3f}, probability {should:.3f}")
print(verdict(bool((share - wanted).abs().max() < 0.03)))

# %% [markdown]
# ## 8. The loop · 生成循环
#
# Score, draw, append, again: that is all that generation is. It does not matter where the scores
# come from.
#
# 打分、采样、追加，再来一遍：生成就是这么回事。分数从哪里来并不重要。


# %%
def write_on(next_logits, ids: list[int], more: int, temperature: float) -> list[int]:
    """``ids`` and ``more`` tokens."""
    for _ in range(more):
        ids = [*ids, draw(next_logits(ids), temperature)]
    return ids


prompt = tokenizer.encode("The white whale").ids
for temperature in (0.0, 0.7, 1.5):
    ids = write_on(next_by_counting, prompt, 40, temperature)
    print(f"--- temperature {temperature}\n{tokenizer.decode(ids)}")

# %% [markdown]
# Greedy runs in circles; high temperature is noise; in between it is English for two tokens at a
# time. A model that sees only the last token cannot do better. Attention sees all of them.
#
# 贪心会原地打转，温度太高就是一片噪声；两者之间，每两个相邻的 token 还像英文。
# 只看前一个 token 的模型做不到更好，而注意力能看到前面所有的 token。
#
# ## 9. The same loop with Qwen3 · 换成 Qwen3
#
# Four layers replace the counts: `load_model` puts *your* attention and MLP from lab 2 between the
# embedding and the output head. Come back when lab 2 is done. The loop does not change.
#
# 用四层网络代替计数：`load_model` 把*你*在实验 2 中写的注意力和 MLP 放在词嵌入与输出头之间。
# 完成实验 2 后再回来。循环不用改。

# %%
from labs.given.checkpoint import load_model

with your_code("lab2") as mine:
    model = load_model(TINY, mine.Qwen3Attention, mine.Qwen3MLP)

    def next_by_qwen3(ids: list[int]) -> torch.Tensor:
        """Logits ``[vocab]``: the model scores every place, the last one is what comes next."""
        return model(torch.tensor([ids]))[0, -1]

    for temperature in (0.0, 0.7, 1.5):
        ids = write_on(next_by_qwen3, prompt, 40, temperature)
        print(f"--- temperature {temperature}\n{tokenizer.decode(ids)}")

# %% [markdown]
# How much better is it? We ask each model for the probability of the token that really comes next,
# on text that it has not seen: the counting model is made again from the first half of these
# chapters and tested on the end of the second half. Qwen3 was trained on the rest of the book.
#
# 好多少呢？用模型没有见过的文本来问它：真正的下一个 token 的概率是多少？
# 计数模型用这几章的前一半重新统计，再用后一半的结尾来测试；Qwen3 则是用书的其余部分训练的。

# %%
with your_code("lab2") as mine:
    model = load_model(TINY, mine.Qwen3Attention, mine.Qwen3MLP)
    asked = stream[-257:]
    half = torch.full((1024, 1024), 1e-3)
    half.index_put_((stream[:12000], stream[1:12001]), torch.tensor(1.0), accumulate=True)
    scores = {
        "counting": half.log()[asked[:-1]],  # [256, 1024]
        "Qwen3": model(asked[None, :-1])[0],
    }
    for name, logits in scores.items():
        chances = torch.softmax(logits, dim=-1)[torch.arange(256), asked[1:]]  # [256]
        surprise = -chances.log2()  # in bits: 0 for what was certain
        plt.plot(surprise.cumsum(0), label=f"{name}: {surprise.mean():.1f} bits per token")
    plt.xlabel("tokens of held-out text")
    plt.ylabel("surprise so far, in bits")
    plt.legend()
    plt.show()

# %% [markdown]
# ## And now? · 接下来
#
# Lab 1 builds the parts from nothing but tensors, lab 2 builds Qwen3's block, lab 3 makes this loop
# fast, and lab 4 builds the whole model with a better sampler. Change the prompt above and run it
# again.
#
# 实验 1 只用张量搭建各个部件，实验 2 写 Qwen3 的模块，实验 3 让这个循环变快，实验 4 搭起整个模型，
# 采样的功能也更全。改一改上面的提示，再运行一次。
