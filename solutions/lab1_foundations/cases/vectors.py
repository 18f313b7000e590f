"""Cases of tokens.py: chats, the embedding and the positions."""

from __future__ import annotations

from typing import Any

import torch

from autograder.course.records import Text
from autograder.reference.recipes import Draft, Draw, draft, recipe
from solutions.reference import oracle_tokens as oracle

from .texts import chosen

QUESTIONS = (
    "Where is the whale?",
    "鲸鱼在哪里？",
    " two\nlines\n",
    "3 < 4?",
    "Is it <b>white</b>?",
    "Call me Ishmael.",
)
ANSWERS = ("In the sea.", "在海里。", "\nYes.\n", "No.", "I do not know; ask the captain.")


def _chat(draw: Draw, roles: str, en: str, zh: str, *, thought: bool = False) -> Draft:
    names = {"s": "system", "u": "user", "a": "assistant"}
    asked, answers = chosen(draw, QUESTIONS, 4), chosen(draw, ANSWERS, 4)
    messages = []
    for number, role in enumerate(roles):
        content = {"s": "Answer like a sailor.", "u": asked[number % 4], "a": answers[number % 4]}
        text = content[role]
        if thought and role == "a":
            inside = draw.pick(("hm", "let me see\nso", "the <think>", "well"))
            if number < 3:  # in the first answer; the last end counts
                inside += draw.pick(("</think>\nno", " </think> again", "\n</think>\n\n"))
                text = f"<think>\n{inside}\n</think>\n  {text}"  # only line breaks are taken away
            else:  # as where the prompt held the beginning
                text = f"{inside}\n</think>\n\n\nX marks it. {text}"
        elif role == "a":  # nothing was thought: its line breaks stay
            text = f"\n{text.lstrip()}"
        messages.append({"role": names[role], "content": text})
    if thought:  # of others nothing is left out
        messages[-1]["content"] += " </think>?"
    texts: dict[str, Any] = {
        name: oracle.chat(messages, prompt=prompt)
        for name, prompt in {"plain": False, "prompted": True}.items()
    }
    about = Text(f"{en}, {len(messages)} messages", f"{zh}，{len(messages)} 条消息")
    return draft(about, messages=messages, **texts)


@recipe()
def chat_turns(draw: Draw) -> Draft:
    return _chat(draw, draw.pick(("suau", "suauau", "ssu")), "a system message", "有系统消息")


@recipe()
def chat_short(draw: Draw) -> Draft:
    return _chat(draw, draw.pick(("u", "uau")), "no system message", "没有系统消息")


@recipe()
def chat_thoughts(draw: Draw) -> Draft:
    roles = draw.pick(("uauau", "suauau"))
    return _chat(draw, roles, "thoughts in an answer", "回答中有思考过程", thought=True)


@recipe()
def embedding_lookup(draw: Draw) -> Draft:
    """Rows of a table; one that nobody asks for is infinite, and spoils no other."""
    rows, dim = draw.pick(((301, 3), (303, 4), (305, 2)))
    weight = 4 * draw.normal(rows, dim)
    ids = draw.permutation(rows)[: rows - 1]
    left = next(n for n in range(rows) if n not in ids.tolist())
    ids = torch.cat((ids, ids.flip(0)))[: 2 * (rows - 1)].reshape(2, -1)
    y = weight[ids].double()
    weight[left] = float("inf")
    about = Text(
        f"a table {[rows, dim]}, ids {list(ids.shape)}", f"表 {[rows, dim]}，ids {list(ids.shape)}"
    )
    padding = int(ids[0, 1])
    return draft(
        about, {"ids": ids, "y": y, "w.weight": weight}, sizes=[rows, dim], padding=padding
    )


def _padding(draw: Draw, padding: int, rows: int, dim: int) -> Draft:
    others = [row for row in draw.permutation(rows).tolist() if row != padding]
    one, more = others[:2]
    ids = torch.tensor([[one, padding, more], [more, padding, more]])
    slope = torch.zeros(rows, dim)
    for number in ids.flatten().tolist():
        slope[number] += number != padding
    about = Text(
        f"padding_idx {padding}, a table {[rows, dim]}", f"padding_idx {padding}，表 {[rows, dim]}"
    )
    weight = draw.normal(rows, dim)
    values: dict[str, Any] = {"sizes": [rows, dim], "padding": padding}
    return draft(about, {"ids": ids, "slope": slope, "w.weight": weight}, **values)


@recipe()
def embedding_padding(draw: Draw) -> Draft:
    """Padding that no number of bfloat16 is."""
    return _padding(draw, 2 * draw.integer(129, 149) + 1, *draw.pick(((301, 4), (303, 3))))


@recipe()
def embedding_padding_zero(draw: Draw) -> Draft:
    """Padding by a number that counts as False."""
    return _padding(draw, 0, *draw.pick(((21, 4), (23, 3), (22, 5))))


@recipe()
def positions_table(draw: Draw) -> Draft:
    """So many places that a base a little off is seen."""
    length, dim = draw.pick(((401, 12), (403, 14), (405, 16)))
    about = Text(f"length {length}, dim {dim}", f"length {length}，dim {dim}")
    return draft(about, {"y": oracle.positions(length, dim)}, length=length, dim=dim)


@recipe()
def positions_first(draw: Draw) -> Draft:
    """A single place, and few features."""
    dim = draw.pick((4, 6, 8))
    about = Text(f"length 1, dim {dim}", f"length 1，dim {dim}")
    return draft(about, {"y": oracle.positions(1, dim)}, length=1, dim=dim)
