# over the solution
"""The library's own module."""


class Embedding(nn.Embedding):
    pass


def apply_chat_template(messages, add_generation_prompt=False):
    start, end = "<|im_start|>", "<|im_end|>\n"
    turns = [(m["role"], m["content"]) for m in messages]
    parts = []
    for role, said in turns:
        if role == "assistant" and "</think>" in said:
            *_, said = said.split("</think>")
            while said.startswith("\n"):
                said = said[1:]
        parts += [start, role, "\n", said, end]
    if add_generation_prompt:
        parts += [start, "assistant", "\n"]
    return "".join(parts)


def sinusoidal_positions(length, dim):
    inverse = torch.reciprocal(10000 ** (torch.arange(0.0, dim, 2.0) / dim))
    angles = torch.arange(length, dtype=torch.float32).view(-1, 1).mul(inverse)
    return torch.dstack((angles.sin(), angles.cos())).reshape(length, dim)
