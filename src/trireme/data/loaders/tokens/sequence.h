// Text with pictures in it as the tokens that a vision-language model reads.
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/config/pixels.h"
#include "trireme/data/media/image.h"
#include "trireme/formats/tiling.h"

namespace trireme::loaders {

// Values of `visual` for a token without a projected row, and a target that has no loss.
inline constexpr std::int64_t kEmbedded = -1, kNewline = -2, kNoTarget = -100;

// Number and order of the tokens that a tower makes of images.
struct Tiling {
  explicit Tiling(const config::Job& job);
  // Tiles of an image of this size. Throws Error{kData} as formats::choose_grid.
  std::int64_t tiles(formats::ImageSize image) const;

  std::int64_t side, per_side, tile_tokens;
  std::int64_t image_token;  // the id of all of them
  bool grid_kept, rows_end;
  bool apart;   // an image is one token, and what follows sees its rows
  bool padded;  // to a square, where an image is one tile
  config::PixelScale scale;
  std::vector<formats::TileGrid> grids;
};

// [tiles, 3, side, side]: the whole image, then the grid that it is fitted into, by rows, on black. Both are resized as PIL's
// bicubic does it.
at::Tensor tiles_of(const Tiling& tiling, const media::Image& image);

// A sample as a sequence. Each token has its id, its projected row or the first of those that it sees, its place, and a
// mark if it belongs to an answer.
class Sequence {
 public:
  using Place = std::array<std::int64_t, 3>;  // time, row, column

  // Ids with a picture at each image token, of these sizes in this order.
  void add_asked(const Tiling& tiling, std::span<const std::int64_t> asked,
                 std::span<const formats::ImageSize> images);
  void add_answer(std::span<const std::int64_t> answer);
  void add_token(std::int64_t id, bool answer);

  std::int64_t size() const { return static_cast<std::int64_t>(ids.size()); }
  std::int64_t tiles() const { return tiles_; }

  std::vector<std::int64_t> ids, visual;
  std::vector<Place> places;
  std::vector<bool> answers;

 private:
  void add(std::int64_t id, std::int64_t row, bool answer, Place place);
  void add_image(const Tiling& tiling, formats::ImageSize image);
  void add_whole(const Tiling& tiling, std::int64_t row);
  void add_grid(const Tiling& tiling, formats::ImageSize image, std::int64_t row);

  std::int64_t next_ = 0;  // position of what comes
  std::int64_t tiles_ = 0;
  std::int64_t seen_ = kEmbedded;  // by the text that comes
};

}  // namespace trireme::loaders
