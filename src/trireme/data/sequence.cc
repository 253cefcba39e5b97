#include "trireme/data/sequence.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bilinear2d.h>
#include <ATen/ops/zeros.h>

#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/resolve_vlm.h"

namespace trireme::data {
namespace {

using formats::ImageSize;
using formats::TileGrid;

// [1, 3, height, width] of another size.
at::Tensor resized(const at::Tensor& image, ImageSize size) {
  return at::upsample_bilinear2d(image, {size.height, size.width}, false);
}

std::int64_t marks_in(std::string_view text) {
  std::int64_t marks = 0;
  for (std::size_t at = text.find(kImageMark); at != text.npos;
       at = text.find(kImageMark, at + kImageMark.size()))
    ++marks;
  return marks;
}

}  // namespace

Tiling::Tiling(const config::Job& job)
    : side(job.vision.image),
      per_side(config::tile_side(job)),
      tile_tokens(config::tile_tokens(job)),
      grid_kept(config::keeps_grid(job.projector)),
      rows_end(config::ends_rows(job)),
      apart(config::crosses(job)),
      grids(formats::tile_grids(job.vlm.max_tiles)) {}

std::int64_t Tiling::tiles(ImageSize image) const {
  return 1 + (grids.empty() ? 0 : choose_grid(image, grids, side).tiles());
}

at::Tensor tiles_of(const Tiling& tiling, const at::Tensor& image) {
  const at::Tensor one = image.unsqueeze(0);
  const std::int64_t side = tiling.side;
  std::vector<at::Tensor> tiles = {resized(one, {.width = side, .height = side})};
  if (tiling.grids.empty()) return tiles[0];
  const ImageSize size{.width = image.size(2), .height = image.size(1)};
  const TileGrid grid = choose_grid(size, tiling.grids, side);
  const ImageSize room{.width = grid.columns * side, .height = grid.rows * side};
  const ImageSize fit = fitted(size, room);
  const at::Tensor canvas = at::zeros({1, 3, room.height, room.width}, image.options());
  canvas.narrow(2, (room.height - fit.height) / 2, fit.height)
      .narrow(3, (room.width - fit.width) / 2, fit.width)
      .copy_(resized(one, fit));
  for (std::int64_t row = 0; row < grid.rows; ++row)
    for (std::int64_t column = 0; column < grid.columns; ++column)
      tiles.push_back(canvas.narrow(2, row * side, side).narrow(3, column * side, side));
  return at::cat(tiles, 0);
}

void Sequence::add_asked(const Tiling& tiling, std::string_view text,
                         std::span<const ImageSize> images, const std::string& what) {
  const std::int64_t marks = marks_in(text);
  if (marks == 0) {
    for (const ImageSize& image : images) add_image(tiling, image);
    return add_text(text, false);
  }
  if (marks != std::ssize(images))
    fail(ErrorKind::kData, "{}: {} in its question {} times, for {} pictures", what, kImageMark,
         marks, images.size());
  for (const ImageSize& image : images) {
    const std::size_t mark = text.find(kImageMark);
    add_text(text.substr(0, mark), false);
    add_image(tiling, image);
    text.remove_prefix(mark + kImageMark.size());
  }
  add_text(text, false);
}

void Sequence::add_answer(std::string_view answer) {
  add_text(answer, true);
  add_token(config::kEndToken, true);
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

void Sequence::add_text(std::string_view text, bool answer) {
  for (const char byte : text) add_token(static_cast<unsigned char>(byte), answer);
}

void Sequence::add_image(const Tiling& tiling, ImageSize image) {
  const std::int64_t row = tiles_ * tiling.tile_tokens, tiles = tiling.tiles(image);
  tiles_ += tiles;
  if (tiling.apart) {
    seen_ = row;
    return add_token(config::kImageToken, false);
  }
  if (!tiling.grid_kept) {
    for (std::int64_t i = 0; i < tiles * tiling.tile_tokens; ++i, ++next_)
      add(config::kImageToken, row + i, false, {next_, next_, next_});
    return;
  }
  add_whole(tiling.per_side, row);
  if (!tiling.grids.empty()) add_grid(tiling, image, row + tiling.tile_tokens);
}

void Sequence::add_whole(std::int64_t per_side, std::int64_t row) {
  for (std::int64_t y = 0; y < per_side; ++y)
    for (std::int64_t x = 0; x < per_side; ++x)
      add(config::kImageToken, row++, false, {next_, next_ + y, next_ + x});
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
      add(config::kImageToken, row + tile * g * g + down % g * g + across % g, false,
          {next_, next_ + y, next_ + x});
    }
    if (tiling.rows_end)
      add(config::kImageToken, kNewline, false, {next_, next_ + y, next_ + seen.columns});
  }
  next_ += std::max(seen.rows, seen.columns + tiling.rows_end);
}

}  // namespace trireme::data
