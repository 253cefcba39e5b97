"""The value that tests/model/blocks/vicreg_test.cc has of the local loss of VICRegL: main_vicregl.py's for one ordered pair of
views, with 3 matches by place and all by feature, in NumPy."""
import numpy as np

B, P, D = 4, 5, 3


def waves(shape, step, start):
    return np.sin(start + step * np.arange(np.prod(shape))).reshape(shape)


def term(x, y):  # [clips, matches, channels]
    loss = 25 * ((x - y) ** 2).mean()
    for z in (x, y):
        loss += 25 / 2 * np.maximum(0, 1 - np.sqrt(z.var(0, ddof=1) + 1e-4)).mean()
        squares = []
        for match in range(z.shape[1]):
            covariance = np.cov(z[:, match], rowvar=False)
            squares.append((covariance**2).sum() - (np.diag(covariance) ** 2).sum())
        loss += np.mean(squares) / D / 2
    return loss


def matched(x, y, at_x, at_y, count):
    kept_x, kept_y = [], []
    for clip in range(B):
        distance = np.sqrt(((at_x[clip][:, None] - at_y[clip][None]) ** 2).sum(-1))
        kept = np.sort(np.argsort(distance.min(1), kind="stable")[:count])
        kept_x.append(x[clip][kept])
        kept_y.append(y[clip][distance.argmin(1)[kept]])
    return np.array(kept_x), np.array(kept_y)


a, b = waves((B, P, D), 0.37, 1), waves((B, P, D), 0.53, 2)
at_a, at_b = waves((B, P, 2), 0.71, 3), waves((B, P, 2), 0.29, 4)
place = (term(*matched(a, b, at_a, at_b, 3)) + term(*matched(b, a, at_b, at_a, 3))) / 2
feature = (term(*matched(a, b, a, b, P)) + term(*matched(b, a, b, a, P))) / 2
print(repr(float(place)), repr(float(feature)))
