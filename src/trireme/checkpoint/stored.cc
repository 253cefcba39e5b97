#include "trireme/checkpoint/stored.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"

namespace trireme::checkpoint {

Stored::Stored(const Path& directory)
    : directory_(directory), open_(formats::open_checkpoint(directory)) {}

Stored::Stored(const Path& directory, const std::set<std::string>& files)
    : directory_(directory),
      open_(formats::open_checkpoint(directory, os::real_file_system(), files)) {}

void Stored::read(std::size_t index, int part, const std::string& kind, std::int64_t offset,
                  const at::Tensor& out, Types types) const {
  bool found = false;
  for (const formats::ManifestSlice& slice : unit(index, part).slices) {
    if (slice.kind != kind) continue;
    found = true;
    copy_overlap(slice, offset, out, types);
  }
  if (!found)
    fail(ErrorKind::kData, "{}: unit {} has no {}; resume with the optimizer that wrote it",
         directory_.string(), unit(index, part).name, kind);
}

void Stored::copy_overlap(const formats::ManifestSlice& slice, std::int64_t offset,
                          const at::Tensor& out, Types types) const {
  const std::int64_t begin = std::max(offset, slice.offset);
  const std::int64_t end = std::min(offset + out.numel(), slice.offset + slice.length);
  if (begin >= end) return;
  const formats::Tensor* stored = open_.files.at(slice.file).find(slice.tensor);
  TRIREME_CHECK(stored != nullptr, "{} passed verification without {}", slice.file, slice.tensor);
  const bool same = stored->dtype == comm::dtype_of(out.scalar_type());
  if (!same && types == Types::kSame)
    fail(ErrorKind::kData,
         "{}: {} is stored as {}, this job needs {}; resume with the same precision and "
         "optim.states",
         (directory_ / slice.file).string(), slice.tensor, name(stored->dtype),
         name(comm::dtype_of(out.scalar_type())));
  const at::Tensor wanted = out.narrow(0, begin - offset, end - begin);
  const at::Tensor raw =
      same ? wanted
           : at::empty({end - begin}, at::TensorOptions().dtype(comm::scalar_type(stored->dtype)));
  const std::size_t width = size_of(stored->dtype);
  std::memcpy(raw.data_ptr(),
              stored->bytes.data() + static_cast<std::size_t>(begin - slice.offset) * width,
              static_cast<std::size_t>(end - begin) * width);
  if (!same) wanted.copy_(raw);
}

}  // namespace trireme::checkpoint
