"""Checks of pieces, training, encoding, decoding, streams and chats."""

from __future__ import annotations

from typing import Any

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    Literal,
    cases,
    expect_items,
    expect_unchanged,
    expect_value,
    reject,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Student
from labs.lab1_foundations.checks.token_calls import (
    A_LIST,
    A_TEXT,
    as_bytes,
    as_pair,
    expect_list,
    expect_text,
    expect_vocabulary,
    pattern_of,
    tokenizer,
)

TOKENS = Text("the tokens", "token 列表")
PIECES = Text("the pieces", "片段列表")
MERGES = Text("the merges", "合并列表")
MERGE_COUNT = Text("the number of merges", "合并数")
IDS = Text("the ids", "编号列表")
PAIR = Text("a vocabulary and a list of merges", "词表与合并列表")


@cases("merge_plain", "cut_plain")
def test_pieces_runs(student: Student, case: Case) -> None:
    """Both functions run and return lists, and nothing is lost.

    两个函数都能运行，返回 list，并且什么都不丢失。
    """
    if "pair" in case.values:
        tokens = [as_bytes(token) for token in case["tokens"]]
        pair = Literal(as_pair(case["pair"]))
        value = student.call("tokens.merge_pair", Literal(tokens), pair).value
        kind: type[bytes] | type[str] = bytes
        whole, what = b"".join(tokens), TOKENS
    else:
        value = student.call("tokens.pre_tokenize", case["text"]).value
        kind, whole, what = str, case["text"], PIECES
    if not isinstance(value, (list, tuple)) or not all(type(item) is kind for item in value):
        raise reject(
            value, Text(f"a list of {kind.__name__}", f"由 {kind.__name__} 组成的 list"), case, what
        )
    joined = kind().join(value)
    if joined != whole:
        expect_list([joined], [whole], case, what)


@cases("merge_plain", "merge_overlap")
def test_pieces_merge(student: Student, case: Case) -> None:
    """A pair is merged wherever it occurs, from left to right, and nothing else is.

    从左到右合并所有出现的这一对，其余不变。
    """
    tokens, pair = Literal([as_bytes(t) for t in case["tokens"]]), Literal(as_pair(case["pair"]))
    held = student.new("builtins.list", tokens)
    merged = student.call("tokens.merge_pair", held, pair)
    after = student.call(held, method="copy")
    expect_list(merged, [as_bytes(token) for token in case["merged"]], case, TOKENS)
    expect_unchanged(after, tokens.value, case, Text("the list of tokens", "token 的 list"))


@checks("""
    test_pieces_pattern: cut_plain cut_wide cut_lines
        Words keep the space before them, numbers are cut into digits, nothing is left out.
        单词带着前面的空格，数字逐位拆开，什么都不遗漏。

    test_pieces_special: cut_special cut_special_lines
        A special token is a piece of its own; of two that begin alike, the longer one wins.
        特殊 token 自成一个片段；开头相同时取更长的那个。
    """)
def _expect_pieces(student: Student, case: Case) -> None:
    pattern = pattern_of(student, case)
    result = student.call("tokens.pre_tokenize", case["text"], case["special"], **pattern)
    expect_list(result, case["pieces"], case, PIECES)


@cases("train_counts")
def test_train_runs(student: Student, case: Case) -> None:
    """It runs and gives a dict and a list of as many merges as there is room for.

    能运行，返回一个 dict 与一个 list，合并的数量等于剩余的空间。
    """
    result = student.call("tokens.train", case["text"], case["size"], case["special"])
    vocab, merges = expect_items(result, 2, case, PAIR)
    if not isinstance(vocab, dict):
        raise reject(vocab, Text("a dict", "dict"), case, Text("the vocabulary", "词表"))
    if not isinstance(merges, (list, tuple)):
        raise reject(merges, A_LIST, case, MERGES)
    expect_value(len(vocab), case["size"], case, Text("the vocabulary's size", "词表大小"))
    expect_value(len(merges), len(case["merges"]), case, MERGE_COUNT)


@checks("""
    test_train_counts: train_counts train_wide train_lines
        The most frequent pair of bytes is merged, again and again.
        每次合并出现次数最多的一对，从字节开始。

    test_train_overlap: train_overlap
        Overlapping pairs count; pairs across two pieces do not.
        按实际出现计数：重叠的也算，跨片段的不算。

    test_train_ties: train_ties
        Of equally frequent pairs, the one with the lowest ids is merged.
        出现次数相同时，合并编号最小的一对。

    test_train_special: train_special train_none train_little train_end
        Nothing is learned from special tokens, which get the last ids; training ends in time.
        特殊 token 不参与统计，编号排在最后；该停时停。
    """)
def _expect_training(student: Student, case: Case) -> None:
    asked = case["text"], case["size"], case["special"]
    result = student.call("tokens.train", *asked, **pattern_of(student, case))
    vocab, merges = expect_items(result, 2, case, PAIR)
    wanted = [as_pair(pair) for pair in case["merges"]]
    if isinstance(merges, (list, tuple)):  # a pair may be a list, too
        merges = [tuple(pair) if isinstance(pair, list) else pair for pair in merges]
        both = min(len(merges), len(wanted))
        if merges[:both] == wanted[:both]:  # only where training ends is wrong then
            expect_value(len(merges), len(wanted), case, MERGE_COUNT)
    expect_list(merges, wanted, case, MERGES)
    expect_vocabulary(vocab, case)


@cases("encode_special", "encode_empty")
def test_encode_runs(student: Student, case: Case) -> None:
    """It runs and gives a list of whole numbers; an empty text has none.

    能运行，返回由整数组成的 list；空文本返回空 list。
    """
    value = student.call(tokenizer(student, case), case["text"], method="encode").value
    if not isinstance(value, (list, tuple)) or not all(type(number) is int for number in value):
        raise reject(value, Text("a list of int", "由 int 组成的 list"), case, IDS)
    if bool(value) is not bool(case["text"]):
        expect_list(value, case["ids"], case, IDS)


@cases("encode_ranks", "encode_runs")
def test_encode_ranks(student: Student, case: Case) -> None:
    """The earliest merge of this tokenizer is made first, not the longest token or leftmost pair.

    先做这个分词器最早学到的合并，而不是取最长的 token 或最左边的一对。
    """
    bare = tokenizer(student, case, merging=False)  # nothing of it may be left to the next one
    student.call(bare, case["text"], method="encode")
    _expect_ids(student, case)


@checks("""
    test_encode_pieces: encode_pieces encode_lines
        No merge reaches across the pieces that the pattern cuts.
        合并不跨越由 pattern 切出的片段。

    test_encode_special: encode_special
        A special token is one id and is never split.
        特殊 token 是一个编号，永不拆开。

    test_encode_unseen: encode_unseen
        Text never seen before is split into bytes; nothing is changed or left out.
        没见过的内容拆成字节；不修改，也不遗漏。
    """)
def _expect_ids(student: Student, case: Case) -> None:
    result = student.call(tokenizer(student, case), case["text"], method="encode")
    expect_list(result, case["ids"], case, IDS)


@cases("decode_plain")
def test_decode_runs(student: Student, case: Case) -> None:
    """It runs and gives a text; no ids give an empty one.

    能运行，返回文本；没有编号时返回空文本。
    """
    made = tokenizer(student, case)
    some, none = (
        student.call(made, ids, method="decode") for ids in (list(case["ids"]), list[int]())
    )
    if not isinstance(some.value, str) or not some.value:
        raise reject(some.value, A_TEXT, case)
    expect_text(none, "", case, Text("the text of no ids", "没有编号时的文本"))


@checks("""
    test_decode_values: decode_plain decode_spread
        Bytes are joined first and read afterwards; special tokens and spaces stay.
        先拼接字节再解读；特殊 token 与空格保留。

    test_decode_invalid: decode_invalid
        What is not UTF-8 becomes U+FFFD, and no exception is raised.
        不是 UTF-8 的部分变成 U+FFFD，不抛出异常。
    """)
def _expect_decoded(student: Student, case: Case) -> None:
    result = student.call(tokenizer(student, case), case["ids"], method="decode")
    expect_text(result, case["text"], case)


@cases("stream_plain")
def test_stream_runs(student: Student, case: Case) -> None:
    """It runs, and whole words come out at once.

    能运行，完整的单词立即输出。
    """
    _expect_stream(student, case)


@checks("""
    test_stream_whole: stream_bytes stream_spread
        After every id, exactly the complete characters have come out.
        每来一个编号，恰好输出已经完整的字符。
    """)
def _expect_stream(student: Student, case: Case) -> None:
    stream = student.new("tokens.StreamDecoder", tokenizer(student, case))
    shown = [student.call(stream, number, method="push") for number in case["ids"]]
    rest = student.call(stream, method="finish")
    for at, (result, want) in enumerate(zip(shown, case["shown"], strict=True)):
        what = Text(
            f"what push returns for id number {at} (counted from 0)",
            f"第 {at} 个编号（从 0 数起）的 push 返回的文本",
        )
        expect_text(result, want, case, what)
    expect_text(rest, "", case, Text("what finish returns", "finish 返回的文本"))


@cases("stream_open", "stream_invalid", "stream_spread")
def test_stream_rest(student: Student, case: Case) -> None:
    """All output together is the text of all ids, wherever it ends; streams share nothing.

    全部输出拼起来等于全部编号的文本，即使停在字符中间；各个流互不影响。
    """
    made = tokenizer(student, case)
    one, other = (student.new("tokens.StreamDecoder", made) for _ in range(2))
    shown = []
    for number in case["ids"]:
        shown.append(student.call(one, number, method="push"))
        student.call(other, case["ids"][0], method="push")
    shown.append(student.call(one, method="finish"))
    again = student.call(one, method="finish")
    for result in shown:
        if not isinstance(result.value, str):
            raise reject(result.value, A_TEXT, case)
    joined = "".join(result.value for result in shown)
    expect_text(
        joined, case["text"], case, Text("the output of all ids together", "全部编号的输出拼接后")
    )
    expect_text(
        again, "", case, Text("what finish returns the second time", "第二次 finish 的返回值")
    )


@checks(
    """
    test_chat_turns: chat_turns chat_short
        Every message is between its markers, and nothing is added.
        每条消息都在标记之间，不添加任何内容。

    test_chat_thoughts: chat_thoughts
        The assistant's thinking in earlier answers is left out.
        省略助手在先前回答中的思考过程。
    """,
    False,
)
def _expect_chat(student: Student, case: Case, prompt: bool) -> None:
    wanted = case["prompted" if prompt else "plain"]
    keyword: dict[str, Any] = {"add_generation_prompt": True} if prompt else {}
    held = student.new("builtins.list", case["messages"])
    result = student.call("tokens.apply_chat_template", held, **keyword)
    after = student.call(held, method="copy")
    expect_text(result, wanted, case)
    expect_unchanged(after, case["messages"], case, Text("the messages", "消息"))


@cases("chat_short", "chat_turns")
def test_chat_prompt(student: Student, case: Case) -> None:
    """If asked for, the generation prompt begins the assistant's answer.

    需要时，在末尾加上生成提示，作为助手回答的开头。
    """
    _expect_chat(student, case, True)
