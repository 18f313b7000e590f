"""Checks of ``GroupedQueryAttention`` with a cache: the same tokens in pieces."""

from __future__ import annotations

from autograder.checks.contracts import checks
from autograder.checks.expect import (
    NotCounted,
    cases,
    expect_close,
    expect_dtype,
    expect_items,
    expect_most,
    expect_same,
    expect_shape,
)
from autograder.course.records import Text
from autograder.reference.cases import Case
from autograder.sandbox.student import Handle, Result, Student
from autograder.wire.messages import Tensor
from labs.lab3_kv_cache.checks.calls import (
    attention_of,
    cache_of,
    in_pieces,
    joined,
    sizes,
    table_of,
)

PROJECTIONS = ("wq", "wk", "wv")
_RENAMED = {f"{name}_proj.weight": f"w{name}.weight" for name in "qkvo"}
PIECES = Text(
    "tokens that come in pieces meet the same keys and values as all at once. Look at the order "
    "in the cache, at start_pos, and at what is stored.",
    "分段输入的 token 面对的键与值应与一次输入时相同。请检查缓存中的顺序、start_pos 与存入的内容。",
)

REWOUND = Text(
    "what stood at start_pos and later is replaced. Look at which position the rotation, the "
    "cache and the mask take: start_pos, or the number of tokens that the cache holds.",
    "start_pos 及之后的内容要被替换。请检查旋转、缓存与掩码用的是 start_pos，"
    "还是缓存中已有的 token 数。",
)


def _expect_pieces(student: Student, case: Case, pieces: list[int]) -> None:
    """In pieces as at once, both with the causal mask given: only what is kept matters."""
    table, x, mask = table_of(student, case), case["x"], case["mask"]
    at_once = attention_of(student, case, cache_of(student, case))(x, 0, table, mask=mask)
    attention = attention_of(student, case, cache_of(student, case))
    results = in_pieces(attention, x, table, pieces, mask)
    expect_shape(at_once, x.shape, case)
    expect_same(joined(results, x, pieces, case), at_once, case, PIECES)


@checks("""
    test_decoding_mask: decoding_uniform decoding_given_mask
        Tokens of a piece see what a given mask lets them see; without one, all before, cached too.
        给定掩码时，由它单独决定每段中的 token 能看到谁；不给时能看到之前的全部（包括缓存中的）。

    test_decoding_parity: decoding
        In pieces the numbers equal those of Hugging Face.
        分段输入时数值与 Hugging Face 一致。

    test_decoding_checkpoint: decoding_checkpoint
        The weights of the tiny Qwen3 checkpoint give the numbers of Hugging Face.
        使用微型 Qwen3 检查点的权重，数值与 Hugging Face 一致。
    """)
def _expect_decoded(student: Student, case: Case, **options: object) -> None:
    """In pieces near the reference, with the mask of the case if it has one."""
    attention = attention_of(student, case, cache_of(student, case))
    table, mask = table_of(student, case), case.tensors.get("mask")
    results = in_pieces(attention, case["x"], table, case["pieces"], mask)
    got = joined(results, case["x"], case["pieces"], case)
    expect_close(got, case["y"], case, **options)  # type: ignore[arg-type]


@cases("decoding")
def test_decoding_runs(student: Student, case: Case) -> None:
    """It runs with a cache, and gives as many tokens as came in.

    带缓存时能运行，输入多少个 token 就输出多少个。
    """
    cache, table = cache_of(student, case), table_of(student, case)
    attention = student.new("attention.GroupedQueryAttention", *sizes(case), cache)
    results = in_pieces(attention, case["x"], table, case["pieces"])
    joined(results, case["x"], case["pieces"], case)


@cases("decoding")
def test_decoding_pieces(student: Student, case: Case) -> None:
    """A prompt in pieces gives the same as all at once.

    分段输入提示与一次输入的结果相同。
    """
    _expect_pieces(student, case, case["pieces"])


@cases("decoding")
def test_decoding_steps(student: Student, case: Case) -> None:
    """Token by token gives the same as all at once.

    逐个 token 输入与一次输入的结果相同。
    """
    _expect_pieces(student, case, [1] * case["x"].shape[1])


@cases("decoding")
def test_decoding_rewinds(student: Student, case: Case) -> None:
    """start_pos may go back: the answer is as if the tokens taken back had never come.

    start_pos 可以回退：结果与被收回的 token 从未输入过时相同。
    """
    table, x, mask, at = table_of(student, case), case["x"], case["mask"], case["pieces"][0]
    end = x.shape[1] - 1
    first, others = Tensor.of(x.array[:, :at]), Tensor.of(-2 * x.array[:, at:end])
    rows = Tensor.of(mask.array[..., at:end, :end])

    def answered(before: Tensor) -> Result:
        tokens = before.shape[1]
        attention = attention_of(student, case, cache_of(student, case))
        attention(before, 0, table, mask=Tensor.of(mask.array[..., :tokens, :tokens]))
        return attention(others, at, table, mask=rows)

    expect_same(answered(x), expect_shape(answered(first), others.shape, case), case, REWOUND)


@cases("decoding_padded")
def test_decoding_padding(student: Student, case: Case) -> None:
    """Rows of different lengths, padded on the left, give the numbers of Hugging Face.

    长度不同、左侧填充的各行与 Hugging Face 数值一致。
    """
    _expect_decoded(student, case, keep=case["keep"].array)


@cases("decoding_second")
def test_decoding_second(student: Student, case: Case) -> None:
    """After reset a second, shorter sequence gives the numbers of Hugging Face.

    reset 之后，第二个更短的序列与 Hugging Face 数值一致。
    """
    cache, table, other = cache_of(student, case), table_of(student, case), case["other_x"]
    attention = attention_of(student, case, cache)
    attention(case["x"], 0, table, mask=case["mask"])
    student.call(cache, method="reset")
    results = in_pieces(attention, other, table, case["pieces"], case["mask"])
    expect_close(joined(results, other, case["pieces"], case), case["other_y"], case)


@cases("decoding")
def test_decoding_rows(student: Student, case: Case) -> None:
    """One step projects one token per sequence, not all tokens again.

    每一步每条序列只投影一个新 token，而不是重新投影全部。
    """
    attention = attention_of(student, case, cache_of(student, case))
    table, x, (batch, tokens, _) = table_of(student, case), case["x"], case["x"].shape
    in_pieces(attention, Tensor.of(x.array[:, :-1]), table, [tokens - 1])
    last = Tensor.of(x.array[:, -1:])
    step = student.call(attention, last, tokens - 1, table, count=PROJECTIONS)
    result, rows = expect_items(step, 2, case)
    expect_shape(result, last.shape, case)
    why = Text(
        "keys and values of earlier tokens come from the cache.", "之前 token 的键与值应取自缓存。"
    )
    if not any(rows.get(name) for name in PROJECTIONS):
        raise NotCounted(
            Text("no row was seen to enter wq, wk or wv", "没有观察到进入 wq、wk 或 wv 的行")
        )
    for name in PROJECTIONS:
        what = Text(f"rows that enter {name} in one step", f"一步中进入 {name} 的行数")
        # Twice as many, since a row that is copied on the way is seen twice.
        expect_most(rows.get(name, 0), 2 * batch, case, what, why)


def _cache_bytes(student: Student, case: Case) -> tuple[int, int]:
    """Bytes of a full cache, and those of its keys and values alone."""
    cache: Handle = cache_of(student, case, spare=0)
    attention, table = attention_of(student, case, cache), table_of(student, case)
    batch, tokens, _ = case["x"].shape
    filled = student.call(attention, case["x"], 0, table, mask=case["mask"], held=cache)
    kv_width = case.config["num_key_value_heads"] * case.config["head_dim"]
    return expect_items(filled, 2, case)[1], 2 * 4 * batch * tokens * kv_width


@cases("decoding")
def test_decoding_bytes(student: Student, case: Case) -> None:
    """The cache holds the keys and values of the kv heads, not copies for every query head.

    缓存只存键值头的键与值，而不是为每个查询头各存一份。
    """
    held, needed = _cache_bytes(student, case)
    if not held:
        raise NotCounted(Text("no tensor was found in the cache", "缓存中没有找到张量"))
    group = case.config["num_attention_heads"] // case.config["num_key_value_heads"]
    why = Text(
        f"max_len tokens of the kv heads are all it needs; heads are repeated after the cache "
        f"(before it, that takes {group} times the room).",
        f"只需容纳 max_len 个 token 的键值头；各头应在缓存之后再重复"
        f"（在之前重复要占 {group} 倍空间）。",
    )
    expect_most(
        held, 3 * needed // 2, case, Text("bytes in a full cache", "缓存装满时的字节数"), why
    )


@cases("attention_bfloat16")
def test_decoding_bfloat16(student: Student, case: Case) -> None:
    """bfloat16 in, bfloat16 in the cache, bfloat16 out.

    输入 bfloat16，缓存 bfloat16，输出 bfloat16。
    """
    attention = attention_of(student, case, cache_of(student, case))
    table, pieces = table_of(student, case), case["pieces"]
    results = in_pieces(attention, case["x"], table, pieces, case["mask"])
    for result in results:
        expect_dtype(result, "bfloat16", case)
    expect_close(joined(results, case["x"], pieces, case), case["y"], case)


@cases("whole")
def test_decoding_whole(student: Student, case: Case) -> None:
    """With weights of Hugging Face, your table, rows, cache and attention give its numbers.

    用你自己的表、行重排、缓存与注意力：载入 Hugging Face 的权重，得到同样的数值。
    """
    c, tokens = case.config, case["x"].shape[1]
    heads = {"wq": c["num_attention_heads"], "wk": c["num_key_value_heads"]}
    heads |= {"q_norm": 1, "k_norm": 1}
    weights = {_RENAMED.get(name, name): weight for name, weight in case.weights.items()}
    permuted = {
        f"{name}.weight": student.call(
            "attention.permute_for_complex", weights[f"{name}.weight"], count, c["head_dim"]
        )
        for name, count in heads.items()
    }
    for name, result in permuted.items():
        weights[name] = expect_shape(result, weights[name].shape, case)
    table = student.new(
        "attention.precompute_freqs_cis", c["head_dim"], tokens + 2, c["rope_theta"]
    )
    attention = student.new(
        "attention.GroupedQueryAttention", *sizes(case), cache_of(student, case), weights=weights
    )
    results = in_pieces(attention, case["x"], table, case["pieces"])
    expect_close(joined(results, case["x"], case["pieces"], case), case["y"], case)
