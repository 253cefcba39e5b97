#include "trireme/families/arrcoc/blocks_pictures.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/upsample_bilinear2d.h>

#include <algorithm>

namespace trireme::blocks {
namespace {

// [n, 3, h, w] -> [n, 3, side, side].
at::Tensor resized(const at::Tensor& x, std::int64_t side) {
  const std::int64_t rows = std::min(side, x.size(2)), columns = std::min(side, x.size(3));
  const bool shrinks = rows < x.size(2) || columns < x.size(3);
  const at::Tensor fits = shrinks ? at::adaptive_avg_pool2d(x, {rows, columns}) : x;
  if (rows == side && columns == side) return fits;
  return at::upsample_bilinear2d(fits, {side, side}, false);
}

// The pixels that the `index`-th of `parts` has a share in.
at::Tensor part(const at::Tensor& x, std::int64_t dim, std::int64_t index, std::int64_t parts) {
  const std::int64_t size = x.size(dim);
  const std::int64_t begin = index * size / parts, end = ((index + 1) * size + parts - 1) / parts;
  return x.narrow(dim, begin, end - begin);
}

}  // namespace

Pictures::Pictures(const at::Tensor& images, const at::Tensor& sizes, std::int64_t grid) {
  if (!sizes.defined()) {
    const std::int64_t side = images.size(2) / grid;
    even_ = images.reshape({-1, 3, grid, side, grid, side})
                .permute({0, 2, 4, 1, 3, 5})
                .reshape({-1, 3, side, side});
    return;
  }
  const at::Tensor known = sizes.to(at::kCPU).contiguous();
  const auto* const size = known.data_ptr<std::int64_t>();
  for (std::int64_t image = 0; image < images.size(0); ++image) {
    const at::Tensor picture =
        images.narrow(0, image, 1).narrow(2, 0, size[2 * image]).narrow(3, 0, size[2 * image + 1]);
    for (std::int64_t p = 0; p < grid * grid; ++p)
      regions_.push_back(part(part(picture, 2, p / grid, grid), 3, p % grid, grid));
  }
}

at::Tensor Pictures::seen(std::int64_t side) const {
  if (even_.defined()) return resized(even_, side);
  std::vector<at::Tensor> all;
  for (const at::Tensor& region : regions_) all.push_back(resized(region, side));
  return at::cat(all, 0);
}

at::Tensor Pictures::seen(const at::Tensor& numbers, std::int64_t side) const {
  if (even_.defined()) return resized(even_.index_select(0, numbers.to(even_.device())), side);
  std::vector<at::Tensor> chosen;
  for (std::int64_t i = 0; i < numbers.size(0); ++i)
    chosen.push_back(resized(regions_[numbers.data_ptr<std::int64_t>()[i]], side));
  return at::cat(chosen, 0);
}

}  // namespace trireme::blocks
