# Prints the table of augment_test.cc: sums of what Pillow gives for the test's picture, by operation and sign.
# Run: python3 tests/data/media/augment_pillow.py
from PIL import Image, ImageEnhance, ImageOps

W, H, LEVEL = 23, 17, 7.3
picture = Image.new("RGB", (W, H))
picture.putdata([((37 * x + 11 * y) % 251, (x * x + 3 * y) % 241, (5 * x * y + 20) % 200) for y in range(H) for x in range(W)])


def affine(*coefficients):
    return picture.transform(picture.size, Image.AFFINE, coefficients, resample=Image.BICUBIC, fillcolor=(128,) * 3)


def operations(sign):
    share = LEVEL / 10
    factor = 1 + sign * share * 0.9
    limit, add = 256 - int(share * 256), int(share * 110)
    return [
        ImageOps.autocontrast(picture), ImageOps.equalize(picture), ImageOps.invert(picture),
        picture.rotate(sign * share * 30, resample=Image.BICUBIC, fillcolor=(128,) * 3),
        ImageOps.posterize(picture, 4 - int(share * 4)), ImageOps.solarize(picture, limit),
        picture.point([min(255, i + add) if i < 128 else i for i in range(256)] * 3),
        ImageEnhance.Color(picture).enhance(factor), ImageEnhance.Contrast(picture).enhance(factor),
        ImageEnhance.Brightness(picture).enhance(factor), ImageEnhance.Sharpness(picture).enhance(factor),
        affine(1, sign * share * 0.3, 0, 0, 1, 0), affine(1, 0, 0, sign * share * 0.3, 1, 0),
        affine(1, 0, sign * share * 0.45 * W, 0, 1, 0), affine(1, 0, 0, 0, 1, sign * share * 0.45 * H),
    ]


for sign in (1, -1):
    for made in operations(sign):
        values = made.tobytes()
        print("{%d, %d}," % (sum(values), sum((i % 1009) * value for i, value in enumerate(values))))
