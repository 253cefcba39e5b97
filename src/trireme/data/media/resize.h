// Other sizes of a picture. Sums are taken in one order, so equal pictures give equal bytes on every machine.
#pragma once

#include "trireme/data/media/image.h"

namespace trireme::media {

// `kBilinear`: corners are not aligned, and a shrunk side is smoothed over all its pixels (the triangle grows with the
// factor). `kArea`: each new pixel is the mean of the area that it covers. `kBicubic`: the bytes of PIL's bicubic,
// Keys' kernel with a = -1/2, smoothed in the same way. Values between rows and columns are rounded to 8 bits.
enum class Filter { kBilinear, kArea, kBicubic };

// Error{kUsage} if a side is not positive or the result exceeds kMaxPixels.
Image resize(const Image& image, int width, int height, Filter filter = Filter::kBilinear);

// The part of width x height pixels from (x, y). Error{kUsage} if it is not inside.
Image crop(const Image& image, int x, int y, int width, int height);

Image flip_horizontal(const Image& image);

}  // namespace trireme::media
