# over the solution
"""numpy makes the codes and takes them apart; torch only multiplies."""

import numpy as np


def quantize_per_channel(weight):
    numbers = weight.detach().float().numpy()
    scales = np.abs(numbers).max(axis=1) / np.float32(127)
    scales[scales == 0] = 1
    codes = np.rint(numbers / scales[:, None]).astype(np.int8)
    return torch.from_numpy(codes), torch.from_numpy(scales)


def quantize_groups(weight, group_size):
    out, width = weight.shape
    if width % group_size:
        raise ValueError(f"group_size: {width} % {group_size} is not 0")
    numbers = weight.detach().float().numpy().reshape(out, -1, group_size)
    low = np.minimum(numbers.min(axis=2), 0)
    high = np.maximum(numbers.max(axis=2), 0)
    scales = ((high - low) / np.float32(15)).astype(np.float32)
    scales[scales == 0] = 1
    zeros = np.rint(-low / scales)
    codes = np.clip(np.rint(numbers / scales[..., None]) + zeros[..., None], 0, 15)
    bits = np.unpackbits(codes.astype(np.uint8).reshape(out, width, 1), axis=2)[..., 4:]
    pairs = bits.reshape(out, width // 2, 2, 4)[:, :, ::-1]  # high half first
    packed = np.packbits(pairs.reshape(out, -1), axis=1)
    return tuple(map(torch.from_numpy, (packed, scales, zeros.astype(np.uint8))))


def dequantize_groups(packed, scales, zeros, group_size):
    byte = packed.numpy()
    codes = np.empty((byte.shape[0], 2 * byte.shape[1]), dtype=np.int16)
    codes[:, 0::2], codes[:, 1::2] = byte & 0b1111, byte >> 4
    codes = codes.reshape(len(byte), -1, group_size) - zeros.numpy()[..., None]
    wide = codes.astype(np.float32) * scales.numpy()[..., None]
    return torch.from_numpy(wide.reshape(len(byte), -1))
