#include "trireme/formats/tiling.h"

#include <algorithm>
#include <cmath>

#include "trireme/base/error.h"

namespace trireme::formats {
namespace {

void check(ImageSize image) {
  const std::int64_t longer = std::max(image.width, image.height);
  const std::int64_t shorter = std::min(image.width, image.height);
  if (shorter < 1 || longer > kLongestAspect * shorter)
    fail(ErrorKind::kData,
         "an image of {} x {} pixels; needs sides of 1 or more, of which one is at most {} times "
         "the "
         "other",
         image.width, image.height, kLongestAspect);
}

}  // namespace

std::vector<TileGrid> tile_grids(std::int64_t max_tiles, GridOrder order) {
  constexpr std::int64_t kMostASide = 3;
  std::vector<TileGrid> grids;
  const std::int64_t fewest = std::min<std::int64_t>(2, max_tiles);
  for (std::int64_t tiles = std::max<std::int64_t>(1, fewest); tiles <= max_tiles; ++tiles)
    for (std::int64_t side = 1; side <= kMostASide; ++side) {
      const std::int64_t other = tiles / side;
      if (tiles % side != 0 || other > kMostASide) continue;
      const bool tall = order == GridOrder::kTallFirst;
      grids.push_back({.columns = tall ? side : other, .rows = tall ? other : side});
    }
  return grids;
}

ImageSize fitted(ImageSize image, ImageSize room) {
  // Fractions are compared by their products, so that nothing is rounded but once.
  if (room.width * image.height <= room.height * image.width)
    return {.width = room.width,
            .height = std::max<std::int64_t>(1, image.height * room.width / image.width)};
  return {.width = std::max<std::int64_t>(1, image.width * room.height / image.height),
          .height = room.height};
}

ImageSize canvas_size(ImageSize image, ImageSize room) {
  // In fp64 as the published code computes it: a product that is whole may be rounded up by one.
  const auto width = static_cast<double>(image.width), height = static_cast<double>(image.height);
  const double across = static_cast<double>(room.width) / width,
               down = static_cast<double>(room.height) / height;
  if (across < down)
    return {.width = room.width,
            .height = std::min(static_cast<std::int64_t>(std::ceil(height * across)), room.height)};
  return {.width = std::min(static_cast<std::int64_t>(std::ceil(width * down)), room.width),
          .height = room.height};
}

TileGrid choose_grid(ImageSize image, const std::vector<TileGrid>& grids, std::int64_t side) {
  check(image);
  TRIREME_CHECK(!grids.empty(), "no grid of tiles to choose from");
  TileGrid best;
  std::int64_t most = -1, least_left = 0;
  for (const TileGrid& grid : grids) {
    const ImageSize room{.width = grid.columns * side, .height = grid.rows * side};
    const ImageSize size = fitted(image, room);
    const std::int64_t kept = std::min(size.width * size.height, image.width * image.height);
    const std::int64_t left = room.width * room.height - kept;
    if (kept < most || (kept == most && left >= least_left)) continue;
    best = grid;
    most = kept;
    least_left = left;
  }
  return best;
}

TokenRectangle covered(ImageSize image, TileGrid grid, std::int64_t per_side) {
  const ImageSize all{.width = grid.columns * per_side, .height = grid.rows * per_side};
  const ImageSize size = fitted(image, all);
  const std::int64_t column = (all.width - size.width) / 2, row = (all.height - size.height) / 2;
  return {.first_row = row,
          .first_column = column,
          .rows = all.height - 2 * row,
          .columns = all.width - 2 * column};
}

}  // namespace trireme::formats
