// How an image of any size becomes tiles or patches of a vision tower, and how many tokens these are.
#pragma once

#include <cstdint>
#include <vector>

namespace trireme::formats {

struct ImageSize {
  std::int64_t width = 0, height = 0;  // pixels
  bool operator==(const ImageSize&) const = default;
};

struct TileGrid {
  std::int64_t columns = 1, rows = 1;
  std::int64_t tiles() const { return columns * rows; }
  bool operator==(const TileGrid&) const = default;
};

// Maximum ratio of an image's longer side to its shorter one; longer images are refused.
inline constexpr std::int64_t kLongestAspect = 200;

// The order of grids with equally many tiles: fewer columns first, or fewer rows first.
enum class GridOrder { kTallFirst, kWideFirst };

// Grids of 2 to `max_tiles` tiles with at most 3 a side; with 1 the grid of that, with 0 none. For 4 tiles those of LLaVA.
std::vector<TileGrid> tile_grids(std::int64_t max_tiles, GridOrder order = GridOrder::kTallFirst);

// The image as large as fits into `room`, with its aspect kept and its other side rounded down.
ImageSize fitted(ImageSize image, ImageSize room);
// The same rounded up, as LLaVA resizes an image before it lies in the middle of its canvas.
ImageSize canvas_size(ImageSize image, ImageSize room);

// Among these, the grid of tiles of `side` pixels that most of the image's own pixels fit into. If several are equal,
// the one with the smallest empty area, then the first (LLaVA 1.6, Liu et al. 2024). Throws Error{kData} for an empty
// image and one beyond kLongestAspect.
TileGrid choose_grid(ImageSize image, const std::vector<TileGrid>& grids, std::int64_t side);

// Rectangle of a grid's tokens, `per_side` a side of each tile, that the image covers where it is fitted into the
// middle.
struct TokenRectangle {
  std::int64_t first_row = 0, first_column = 0;
  std::int64_t rows = 0, columns = 0;
};
TokenRectangle covered(ImageSize image, TileGrid grid, std::int64_t per_side);

}  // namespace trireme::formats
