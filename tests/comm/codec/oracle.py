#!/usr/bin/env python3
"""Codes by other means, for codec_test.cc: exact fractions, one element at a time. Writes oracle.txt.
   tests/comm/codec/oracle.py > tests/comm/codec/oracle.txt
Lines "input NAME BLOCK FIRST REAL VALUES" and "code CODEC NAME STOCHASTIC BYTES CRC": fp32 as hex words, and the CRC-32
of the decoded values' bytes. For integer_test.cc, "integers CODEC NAME EXPONENTS CODES CRC" of the inputs NAME.0,
NAME.1, ...: exponents + 128 as bytes, the codes of each as bytes, separated by commas, and the decoded sum."""
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


def exponent(blocks, most):
    """Shared by one block of each sender: the least e with |v| <= most 2^e, as a byte."""
    values = [v for block in blocks for v in block]
    if any(math.isnan(v) or math.isinf(v) for v in values):
        return 255
    if not any(values):
        return 0
    e = -127
    while max(abs(Fraction(v)) for v in values) > most * Fraction(2) ** e:
        e += 1
    return e + 128


def integers(senders, block, most):
    """Bytes of exponents, codes of each sender and the decoded sum."""
    exponents, codes, values = b'', [[] for _ in senders], []
    for b in range(0, len(senders[0]), block):
        blocks = [x[b:b + block] for x in senders]
        byte = exponent(blocks, most)
        exponents += bytes([byte])
        unit = Fraction(2) ** (byte - 128)
        for x, own in zip(blocks, codes):
            own += [0] * block if byte in (0, 255) else [round(Fraction(v) / unit) for v in x]
        for i in range(b, b + block):
            exact = float(sum(own[i] for own in codes) * unit)
            large = math.copysign(math.inf, exact) if abs(exact) >= 2.0 ** 128 else f32(exact)
            values.append(math.nan if byte == 255 else large)
    return exponents, codes, values


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

    nan, most = math.nan, from_bits(0x7F7FFFFF)
    groups = {'scales': (16, [normal(6, 64), normal(7, 64, 1e-3), normal(8, 64, 30.0)]),
              'parts': (16, [normal(9, 16) + [0.0] * 32, [0.0] * 16 + [-0.0] * 16 + normal(10, 16, 1e-20)]),
              'wrong': (16, [normal(11, 16) + [nan] + normal(12, 31), normal(13, 47) + [math.inf]]),
              'ends': (16, [[127.0] + [f32(127.00001)] * 15 + [7.0, 3.5, -2.5] + [0.5] * 13,
                            [0.5, 1.5, 2.5, -0.5] * 4 + [-7.0] * 16]),
              'least': (16, [[from_bits(1), from_bits(0x3FFFFF), -from_bits(0x400000)] + [2.0 ** -127] * 13,
                             [f32(v * 1e-38) for v in normal(14, 16)]]),
              'most': (16, [[most, -most] + normal(15, 14, 1e36), [most] * 16]),
              'ragged': (32, [normal(16, 40), normal(17, 40)])}
    for name, (block, senders) in groups.items():
        real = len(senders[0])
        padded = [x + [0.0] * (-real % block) for x in senders]
        for i, x in enumerate(padded):
            print('input', '%s.%d' % (name, i), block, 3, real, ''.join('%08x' % bits(v) for v in x))
        for codec, q_max in (('i8x', 127), ('i4x', 7)):
            exponents, codes, values = integers(padded, block, q_max)
            print('integers', codec, name, exponents.hex(),
                  ','.join(struct.pack('%db' % len(own), *own).hex() for own in codes),
                  '%08x' % zlib.crc32(struct.pack('<%df' % len(values), *values)))


main()
