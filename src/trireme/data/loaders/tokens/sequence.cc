#include "trireme/data/loaders/tokens/sequence.h"

#include <ATen/ops/stack.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/data/loaders/samples/pixels.h"
#include "trireme/data/media/resize.h"
#include "trireme/families/vlm/keys_checks.h"

namespace trireme::loaders {
namespace {

using formats::ImageSize;
using formats::TileGrid;

media::Image bicubic(const media::Image& image, ImageSize size) {
  return media::resize(image, static_cast<int>(size.width), static_cast<int>(size.height),
                       media::Filter::kBicubic);
}

// In the middle of `room`, whose other pixels have this colour.
media::Image placed(const media::Image& image, ImageSize room,
                    const std::array<std::uint8_t, 3>& colour) {
  media::Image canvas(static_cast<int>(room.width), static_cast<int>(room.height));
  for (std::size_t i = 0; i < canvas.rgb.size(); ++i) canvas.rgb[i] = colour[i % 3];
  const int x = (canvas.width - image.width) / 2, y = (canvas.height - image.height) / 2;
  for (int row = 0; row < image.height; ++row)
    std::copy_n(image.pixel(0, row), 3 * image.width, canvas.pixel(x, y + row));
  return canvas;
}

// The mean colour in 8 bits, rounded down as LLaVA 1.5 does it.
std::array<std::uint8_t, 3> mean_colour(const config::PixelScale& scale) {
  std::array<std::uint8_t, 3> colour{};
  for (std::size_t channel = 0; channel < 3; ++channel)
    colour[channel] = static_cast<std::uint8_t>(255 * scale.mean[channel]);
  return colour;
}

// An image in the middle of a square of this colour, resized to `side`. Every row is resized by itself, so strips of rows
// give the same bytes without the whole square in memory.
media::Image padded_tile(const media::Image& image, int side,
                         const std::array<std::uint8_t, 3>& colour) {
  constexpr int kStrip = 64;
  const int longer = std::max(image.width, image.height);
  media::Image narrow(side, image.height);
  for (int y = 0; y < image.height; y += kStrip) {
    const int rows = std::min(kStrip, image.height - y);
    const media::Image strip = placed(media::crop(image, 0, y, image.width, rows),
                                      {.width = longer, .height = rows}, colour);
    std::ranges::copy(bicubic(strip, {.width = side, .height = rows}).rgb, narrow.pixel(0, y));
  }
  return bicubic(placed(narrow, {.width = side, .height = longer}, colour),
                 {.width = side, .height = side});
}

// All of an image in one tile.
media::Image whole_tile(const Tiling& tiling, const media::Image& image) {
  if (!tiling.padded) return bicubic(image, {.width = tiling.side, .height = tiling.side});
  return padded_tile(image, static_cast<int>(tiling.side), mean_colour(tiling.scale));
}

}  // namespace

Tiling::Tiling(const config::Job& job)
    : side(job.vision.image),
      per_side(config::tile_side(job)),
      tile_tokens(config::tile_tokens(job)),
      image_token(job.vlm.tokens[0]),
      grid_kept(config::keeps_grid(job.projector)),
      rows_end(config::ends_rows(job)),
      apart(config::crosses(job)),
      padded(job.vlm.fit == config::VlmFit::kPad),
      scale(config::pixel_scale(job)),
      grids(formats::tile_grids(job.vlm.max_tiles, job.vlm.fit == config::VlmFit::kWide
                                                       ? formats::GridOrder::kWideFirst
                                                       : formats::GridOrder::kTallFirst)) {}

std::int64_t Tiling::tiles(ImageSize image) const {
  return 1 + (grids.empty() ? 0 : choose_grid(image, grids, side).tiles());
}

at::Tensor tiles_of(const Tiling& tiling, const media::Image& image) {
  const std::int64_t side = tiling.side;
  std::vector<at::Tensor> tiles = {pixels_of(whole_tile(tiling, image), tiling.scale)};
  if (tiling.grids.empty()) return at::stack(tiles);
  const ImageSize size{.width = image.width, .height = image.height};
  const TileGrid grid = choose_grid(size, tiling.grids, side);
  const ImageSize room{.width = grid.columns * side, .height = grid.rows * side};
  const at::Tensor canvas =
      pixels_of(placed(bicubic(image, canvas_size(size, room)), room, {}), tiling.scale);
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column)
      tiles.push_back(canvas.narrow(1, row * side, side).narrow(2, column * side, side));
  return at::stack(tiles);
}

void Sequence::add_asked(const Tiling& tiling, std::span<const std::int64_t> asked,
                         std::span<const ImageSize> images) {
  auto image = images.begin();
  for (const std::int64_t id : asked)
    if (id != tiling.image_token)
      add_token(id, false);
    else
      add_image(tiling, *image++);
  TRIREME_CHECK(image == images.end(), "{} images in {} tokens", images.size(), asked.size());
}

void Sequence::add_answer(std::span<const std::int64_t> answer) {
  for (const std::int64_t id : answer) add_token(id, true);
}

void Sequence::add_token(std::int64_t id, bool answer) {
  add(id, seen_, answer, {next_, next_, next_});
  ++next_;
}

void Sequence::add(std::int64_t id, std::int64_t row, bool answer, Place place) {
  ids.push_back(id);
  visual.push_back(row);
  answers.push_back(answer);
  places.push_back(place);
}

void Sequence::add_image(const Tiling& tiling, ImageSize image) {
  const std::int64_t row = tiles_ * tiling.tile_tokens, tiles = tiling.tiles(image);
  tiles_ += tiles;
  if (tiling.apart) {
    seen_ = row;
    return add_token(tiling.image_token, false);
  }
  if (!tiling.grid_kept) {
    for (std::int64_t i = 0; i < tiles * tiling.tile_tokens; ++i, ++next_)
      add(tiling.image_token, row + i, false, {next_, next_, next_});
    return;
  }
  add_whole(tiling, row);
  if (!tiling.grids.empty()) add_grid(tiling, image, row + tiling.tile_tokens);
}

void Sequence::add_whole(const Tiling& tiling, std::int64_t row) {
  const std::int64_t per_side = tiling.per_side;
  for (std::int64_t y = 0; y < per_side; ++y)
    for (std::int64_t x = 0; x < per_side; ++x)
      add(tiling.image_token, row++, false, {next_, next_ + y, next_ + x});
  next_ += per_side;
}

void Sequence::add_grid(const Tiling& tiling, ImageSize image, std::int64_t row) {
  const TileGrid grid = choose_grid(image, tiling.grids, tiling.side);
  const formats::TokenRectangle seen = covered(image, grid, tiling.per_side);
  const std::int64_t g = tiling.per_side;
  for (std::int64_t y = 0; y < seen.rows; ++y) {
    for (std::int64_t x = 0; x < seen.columns; ++x) {
      const std::int64_t down = seen.first_row + y, across = seen.first_column + x;
      const std::int64_t tile = down / g * grid.columns + across / g;
      add(tiling.image_token, row + tile * g * g + down % g * g + across % g, false,
          {next_, next_ + y, next_ + x});
    }
    if (tiling.rows_end)
      add(tiling.image_token, kNewline, false, {next_, next_ + y, next_ + seen.columns});
  }
  next_ += std::max(seen.rows, seen.columns + tiling.rows_end);
}

}  // namespace trireme::loaders
