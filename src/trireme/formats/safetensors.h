// safetensors files: named tensors after a JSON header (format of huggingface/safetensors).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/fs.h"
#include "trireme/base/os/file_system.h"
#include "trireme/formats/digest.h"

namespace trireme::formats {

// One tensor: row-major, little-endian elements; `bytes` is owned by the file or by the caller and
// is not aligned.
struct Tensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;

  std::int64_t numel() const { return static_cast<std::int64_t>(bytes.size() / size_of(dtype)); }
};

using TensorMetadata = std::map<std::string, std::string>;

// Contents of a header; tensors are in the order of their data.
struct TensorTable {
  std::vector<Tensor> tensors;
  TensorMetadata metadata;
  std::vector<std::uint32_t> by_name{};  // numbers of the tensors, sorted by name

  // The tensor of that name, or nullptr; in logarithmic time.
  const Tensor* find(std::string_view name) const;
};

// Reads a safetensors image from untrusted bytes, which must outlive the result. Refuses a header longer than the file
// or 100 MB, and more than 2^18 tensors or 2^16 metadata entries, which bound the memory that a header takes. Also
// refuses malformed or duplicate entries, shapes that overflow or disagree with their bytes, holes, overlaps, trailing
// bytes, and types beyond DType. `what` names the source. Throws Error{kData}.
TensorTable parse_safetensors(std::span<const std::byte> bytes, const std::string& what);

// A safetensors file and its contents.
class SafetensorsFile {
 public:
  // Symbolic links are followed.
  explicit SafetensorsFile(const Path& path)
      : SafetensorsFile(os::real_file_system().read(std::filesystem::weakly_canonical(path)),
                        path.string()) {}
  SafetensorsFile(std::unique_ptr<os::Contents> contents, const std::string& what)
      : contents_(std::move(contents)), table_(parse_safetensors(contents_->bytes(), what)) {}

  const TensorTable& table() const { return table_; }
  const std::vector<Tensor>& tensors() const { return table_.tensors; }
  const TensorMetadata& metadata() const { return table_.metadata; }
  const Tensor* find(std::string_view name) const { return table_.find(name); }

 private:
  std::unique_ptr<os::Contents> contents_;
  TensorTable table_;
};

// kOfficial: widest elements first, then by name, as the reference writer does, so every element is
// aligned in the file; kAsGiven keeps the caller's order.
enum class TensorOrder { kOfficial, kAsGiven };

// "F32": the name of a type in a header.
std::string_view safetensors_type(DType type);

// A tensor's entry in a header.
struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

// Writes and fsyncs a new file, with at most a few MiB in memory at a time. `bytes(i)` is called once for each
// tensors[i], in the order of the file, and its result must live until the next call. Equal arguments give equal bytes.
// Names must be unique valid UTF-8 and bytes must match the shapes, else our bug. Throws Error{kData} when the file
// exists or cannot be written.
using TensorBytes = std::function<std::span<const std::byte>(std::size_t)>;
FileDigest stream_safetensors(const Path& path, std::span<const TensorInfo> tensors,
                              const TensorMetadata& metadata, TensorOrder order,
                              const TensorBytes& bytes,
                              os::FileSystem& files = os::real_file_system());

}  // namespace trireme::formats
