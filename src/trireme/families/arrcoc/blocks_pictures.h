// Pictures of a micro-batch as regions, at the resolution that each is seen at.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace trireme::blocks {

// grid * grid regions of each picture, row by row, numbered over the micro-batch. Regions of a picture that is not
// square are not either, until they are looked at.
class Pictures {
 public:
  // images: [b, 3, side, side]. sizes: int64 [b, 2], height and width of each in its top left corner; undefined: all is
  // picture.
  Pictures(const at::Tensor& images, const at::Tensor& sizes, std::int64_t grid);

  // The picture's own pixels, resized to side * side: by areas along a shrunk axis, bilinear along an enlarged one.
  // Result [regions, 3, side, side], for all regions or those with these numbers, int64 [n].
  at::Tensor seen(std::int64_t side) const;
  at::Tensor seen(const at::Tensor& numbers, std::int64_t side) const;

 private:
  at::Tensor even_;                  // all of them, of one size; undefined where sizes differ
  std::vector<at::Tensor> regions_;  // else each, [1, 3, height, width]
};

}  // namespace trireme::blocks
