#!/usr/bin/env python3
"""Codes by other means, for codec_test.cc: exact fractions, one element at a time. Writes oracle.txt.
   tests/comm/codec/oracle.py > tests/comm/codec/oracle.txt
Lines "input NAME BLOCK FIRST REAL VALUES" and "code CODEC NAME STOCHASTIC BYTES CRC": fp32 as hex words, and the CRC-32
of the decoded values' bytes."""
import math
import struct
import zlib
from fractions import Fraction

MASK = (1 << 64) - 1


def f32(x):
    return struct.unpack('<f', struct.pack('<f', x))[0]


def bits(x):
    return struct.unpack('<I', struct.pack('<f', x))[0]


def from_bits(b):
    return struct.unpack('<f', struct.pack('<I', b))[0]


def to_bf16(x, up=False):
    """bf16 of a finite fp32, by comparing neighbours; `up`: the one at or above (x >= 0)."""
    low = bits(x) >> 16
    lower, upper = Fraction(from_bits(low << 16)), Fraction(from_bits((low + 1) << 16)) \
        if (low + 1) & 0x7F80 != 0x7F80 else None
    exact = Fraction(x)
    if lower == exact:
        return low
    if up:
        return low + 1
    if upper is None:
        return low
    below, above = abs(exact - lower), abs(upper - exact)
    return low if below < above or (below == above and low % 2 == 0) else low + 1


def bf16_value(b):
    return from_bits(b << 16)


def mix(key, value):
    z = (key * 0x9E3779B97F4A7C15 + value + 0xD1B54A32D192ED03) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def noise(key, i):
    h = ((i * 0x9E3779B9) ^ key) & 0xFFFFFFFF
    h = ((h ^ (h >> 16)) * 0x7FEB352D) & 0xFFFFFFFF
    h = ((h ^ (h >> 15)) * 0x846CA68B) & 0xFFFFFFFF
    return h >> 16


SEED, UPDATE, SENDER, UNIT = 11, 22, 1, 3
STEP = mix(mix(0, SEED), UPDATE)
PLACES = mix(STEP, UNIT)
NOISE = mix(mix(STEP, UNIT), SENDER + 1)


def nibbles(codes):
    return bytes((codes[i] & 15) | ((codes[i + 1] & 15) << 4) for i in range(0, len(codes), 2))


def quantised(x, number, most, stochastic):
    if any(math.isnan(v) or math.isinf(v) for v in x):
        return struct.pack('<H', 0x7FC0), [0] * len(x), [math.nan] * len(x)
    scale_bits = to_bf16(f32(max(abs(v) for v in x) / most), up=True)
    scale = bf16_value(scale_bits)
    key = mix(NOISE, number) & 0xFFFFFFFF
    codes = []
    for i, v in enumerate(x):
        if scale == 0:
            codes.append(0)
        elif stochastic:
            shifted = f32(f32(v / scale) + noise(key, i) / 65536)
            codes.append(max(-most, min(most, math.floor(shifted))))
        else:
            codes.append(round(Fraction(f32(v / scale))))  # ties to even
    return struct.pack('<H', scale_bits), codes, [f32(scale * c) for c in codes]


def q8(x, number, real, stochastic):
    head, codes, values = quantised(x, number, 127, stochastic)
    return head + struct.pack('%db' % len(codes), *codes), values


def q4(x, number, real, stochastic):
    head, codes, values = quantised(x, number, 7, stochastic)
    return head + nibbles(codes), values


def bf16(x, number, real, stochastic):
    codes = [bits(v) >> 16 if math.isinf(v) else (bits(v) >> 16) | 0x40 if math.isnan(v) else to_bf16(v) for v in x]
    return struct.pack('<%dH' % len(x), *codes), [bf16_value(c) for c in codes]


def f4(x, number, real, stochastic):
    if any(math.isnan(v) or math.isinf(v) for v in x):
        return struct.pack('<I', 0x7FC00000) + bytes(len(x) // 2), [math.nan] * len(x)
    a = max(abs(v) for v in x)
    tie = f32(1.5 * a)  # the cases are far from overflow
    codes, values = [], []
    for v in x:
        level = 0
        for candidate in range(1, 8):
            begin = a / 128 if candidate == 1 else tie * 2.0 ** (candidate - 8)
            if v != 0 and abs(v) >= begin:
                level = candidate
        codes.append(level | (8 if v < 0 and level else 0))
        value = 0.0 if level == 0 else a * 2.0 ** (level - 7)
        values.append(-value if codes[-1] & 8 else value)
    return struct.pack('<f', a) + nibbles(codes), values


def tree(values):
    while len(values) > 1:
        half = len(values) // 2
        values = [f32(values[i] + values[i + half]) for i in range(half)]
    return values[0]


def sign(x, number, real, stochastic):
    packed = bytes(sum((1 << j) for j in range(8) if x[i + j] < 0) for i in range(0, len(x), 8))
    if any(math.isnan(v) or math.isinf(v) for v in x):
        return struct.pack('<H', 0x7FC0) + packed, [math.nan] * len(x)
    mean = to_bf16(f32(tree([abs(v) for v in x]) / real))
    size = bf16_value(mean)
    return struct.pack('<H', mean) + packed, [-size if v < 0 else size for v in x]


def packed_bits(numbers):
    """[(value, width)], little-endian."""
    total, at = 0, 0
    for value, width in numbers:
        total |= value << at
        at += width
    return total.to_bytes((at + 7) // 8, 'little')


def coded(sent, width):
    """Head, codes and values of the elements that a sparse codec sends."""
    if width == 32:
        return b'', [bits(v) for v in sent], sent
    if width == 16:
        codes = [to_bf16(v) for v in sent]
        return b'', codes, [bf16_value(c) for c in codes]
    if width == 1:
        total = 0.0
        for v in sent:
            total += abs(v)
        mean = to_bf16(f32(total / len(sent)))
        return (struct.pack('<H', mean), [1 if v < 0 else 0 for v in sent],
                [-bf16_value(mean) if v < 0 else bf16_value(mean) for v in sent])
    scale_bits = to_bf16(max(abs(v) for v in sent), up=True)
    scale, steps = bf16_value(scale_bits), 2 ** width - 1
    codes = [0 if scale == 0 else round(Fraction(f32(f32(f32(f32(v / scale) + 1) * 0.5) * steps))) for v in sent]
    return (struct.pack('<H', scale_bits), codes,
            [f32(scale * f32((2 * c - steps) / steps)) for c in codes])


def kept_of(block, share):
    return max(1, math.floor(block * share + 0.5))


def topk(share, width):
    def run(x, number, real, stochastic):
        kept = kept_of(len(x), share)
        places = sorted(sorted(range(len(x)), key=lambda i: (-abs(x[i]), i))[:kept])
        head, codes, values = coded([x[i] for i in places], width)
        index = len(x).bit_length() - 1
        out = [0.0] * len(x)
        for place, value in zip(places, values):
            out[place] = value
        return head + packed_bits([(p, index) for p in places] + [(c, width) for c in codes]), out
    return run


def randk(share, width):
    def run(x, number, real, stochastic):
        kept, key, taken = kept_of(len(x), share), mix(PLACES, number), set()
        for last in range(len(x) - kept, len(x)):
            drawn = ((mix(key, last) >> 32) * (last + 1)) >> 32
            taken.add(last if drawn in taken else drawn)
        places, factor = sorted(taken), f32(len(x) / kept)
        head, codes, values = coded([f32(x[i] * factor) for i in places], width)
        out = [0.0] * len(x)
        for place, value in zip(places, values):
            out[place] = value
        return head + packed_bits([(c, width) for c in codes]), out
    return run


CODECS = {'bf16': bf16, 'q8': q8, 'q4': q4, 'f4': f4, 'sign': sign,
          'topk:0.1:16': topk(0.1, 16), 'topk:0.25:2': topk(0.25, 2), 'topk:0.2:1': topk(0.2, 1),
          'topk:0.05:32': topk(0.05, 32), 'randk:0.1:32': randk(0.1, 32), 'randk:0.3:4': randk(0.3, 4),
          'randk:0.2:16': randk(0.2, 16), 'randk:0.5:1': randk(0.5, 1)}


def normal(seed, count, scale=1.0):
    """About normal, from the hash alone: sums of 12 uniforms."""
    return [f32(scale * (sum((mix(seed, 12 * i + j) >> 40) / (1 << 24) for j in range(12)) - 6)) for i in range(count)]


def main():
    tied = [f32(v) for v in [1, -.5, .25, 0, .75, -.375, .0078125, .01171875, -0.0, -1, 1, .1, .1, -.1, .1, 3e-3]]
    cases = {'small': (16, 0, normal(1, 16)), 'middle': (64, 5, normal(2, 128, 1e-3)),
             'large': (256, 7, normal(3, 256, 40.0)), 'ties': (16, 1, tied), 'zeros': (16, 0, [0.0] * 32),
             'tiny': (32, 3, [f32(v * 1e-38) for v in normal(4, 32)]), 'ragged': (16, 2, normal(5, 40))}
    for name, (block, first, x) in cases.items():
        padded = x + [0.0] * (-len(x) % block)
        print('input', name, block, first, len(x), ''.join('%08x' % bits(v) for v in padded))
        for text, codec in CODECS.items():
            for stochastic in ((0, 1) if text in ('q8', 'q4') else (0,)):
                out, values = b'', []
                for b in range(0, len(padded), block):
                    code, decoded = codec(padded[b:b + block], first + b // block, min(block, len(x) - b), stochastic)
                    out += code
                    values += decoded
                values = values[:len(x)] + [0.0] * (len(padded) - len(x))
                print('code', text, name, stochastic, out.hex(),
                      '%08x' % zlib.crc32(struct.pack('<%df' % len(values), *values)))


main()
