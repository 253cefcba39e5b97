#include "trireme/formats/safetensors.h"

#include <algorithm>
#include <array>
#include <compare>
#include <cstring>
#include <functional>
#include <numeric>
#include <unordered_set>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/git_lfs.h"
#include "trireme/base/json_events.h"
#include "trireme/formats/shown.h"

namespace trireme::formats {
namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
constexpr std::size_t kMaxDims = 32;
// Published files have thousands; what a header of 100 MB takes in memory must not be a multiple of it.
constexpr std::size_t kMaxTensors = std::size_t{1} << 18, kMaxMetadata = std::size_t{1} << 16;
constexpr std::uint64_t kMaxTensorBytes = std::uint64_t{1} << 56;
constexpr char kMetadataKey[] = "__metadata__";

constexpr std::array<std::pair<std::string_view, DType>, 9> kTypes{{{"F64", DType::kF64},
                                                                    {"F32", DType::kF32},
                                                                    {"BF16", DType::kBF16},
                                                                    {"F16", DType::kF16},
                                                                    {"I64", DType::kI64},
                                                                    {"I32", DType::kI32},
                                                                    {"I16", DType::kI16},
                                                                    {"U16", DType::kU16},
                                                                    {"U8", DType::kU8}}};

// Where the bytes of a tensor lie in the data.
struct TensorOffsets {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  auto operator<=>(const TensorOffsets&) const = default;
};

// Streams the header: an entry is checked as it closes, and nothing is kept but the table itself.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  explicit HeaderReader(const std::string& what) : what_(what) {}

  std::vector<Tensor> tensors;  // as the header names them, without bytes
  std::vector<TensorOffsets> offsets;
  TensorMetadata metadata;

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override {
    fail(ErrorKind::kData, "{}: {} has the negative number {}", what_, where(), value);
  }
  bool number_float(number_float_t, const string_t& text) override {
    fail(ErrorKind::kData, "{}: {} has {} where a whole number is needed", what_, where(),
         shown(text));
  }
  bool binary(binary_t&) override { unexpected("binary"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) unexpected("a number");
    if (field_ == kShape) {
      if (tensor_.shape.size() == kMaxDims)
        fail(ErrorKind::kData, "{}: {} has more than {} dimensions", what_, where(), kMaxDims);
      if (value > kMaxTensorBytes)
        fail(ErrorKind::kData, "{}: {} has the impossible dimension {}", what_, where(), value);
      tensor_.shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (numbers_ == 2) unexpected("a third number");
      (numbers_++ == 0 ? at_.begin : at_.end) = value;
    }
    return true;
  }

  bool string(string_t& value) override {
    if (depth_ == 2 && in_metadata_) {
      metadata[key_] = std::move(value);
      return true;
    }
    if (depth_ != 2 || in_list_ || field_ != kDtype) unexpected("a string");
    const auto found =
        std::find_if(kTypes.begin(), kTypes.end(), [&](auto& t) { return t.first == value; });
    if (found == kTypes.end())
      fail(ErrorKind::kData,
           "{}: {} has type {}, which Trireme does not support; convert it to F32, F16 or BF16",
           what_, where(), shown(value));
    tensor_.dtype = found->second;
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ > 1 || in_list_) unexpected("an object");
    ++depth_;
    return true;
  }
  bool end_object() override {
    if (--depth_ != 1 || in_metadata_) return true;
    if (seen_ != (kDtype | kShape | kOffsets) || numbers_ != 2)
      fail(ErrorKind::kData, "{}: {} needs dtype, shape and two data_offsets", what_, where());
    if (tensors.size() == kMaxTensors)
      fail(ErrorKind::kData, "{}: has more than {} tensors; split it into several files", what_,
           kMaxTensors);
    tensor_.shape.shrink_to_fit();
    tensors.push_back(std::move(tensor_));
    offsets.push_back(at_);
    return true;
  }
  bool start_array(std::size_t) override {
    const bool expected =
        depth_ == 2 && !in_list_ && !in_metadata_ && (field_ == kShape || field_ == kOffsets);
    if (!expected) unexpected("a list");
    in_list_ = true;
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 2)
      in_metadata_ ? metadata_key(name) : field_key(name);
    else
      tensor_key(name);
    return true;
  }
  bool parse_error(std::size_t at, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail(ErrorKind::kData, "{}: header is not valid JSON at byte {}", what_, at + 8);
  }

 private:
  enum Field : unsigned { kNone = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  std::string where() const { return "tensor " + shown(tensor_.name); }
  [[noreturn]] void unexpected(const char* thing) const {
    fail(ErrorKind::kData, "{}: header has {} where it does not belong, at {}", what_, thing,
         where());
  }
  [[noreturn]] void twice(const std::string& name) const {
    fail(ErrorKind::kData, "{}: {} appears twice in the header", what_, shown(name));
  }

  void tensor_key(const std::string& name) {
    in_metadata_ = name == kMetadataKey;
    if (in_metadata_ && std::exchange(had_metadata_, true)) twice(name);
    if (name.find('\0') != std::string::npos || name.empty())
      fail(ErrorKind::kData, "{}: tensor name {} is empty or holds a NUL", what_, shown(name));
    tensor_ = {.name = name, .dtype = DType::kF32, .shape = {}, .bytes = {}};
    field_ = kNone;
    seen_ = 0;
    numbers_ = 0;
  }
  void field_key(const std::string& name) {
    field_ = name == "dtype"          ? kDtype
             : name == "shape"        ? kShape
             : name == "data_offsets" ? kOffsets
                                      : kNone;
    if (field_ == kNone)
      fail(ErrorKind::kData, "{}: {} has the unknown field {}", what_, where(), shown(name));
    if ((seen_ & field_) != 0) twice(name);
    seen_ |= field_;
  }
  void metadata_key(const std::string& name) {
    if (metadata.contains(name)) twice(name);
    if (metadata.size() == kMaxMetadata)
      fail(ErrorKind::kData, "{}: has more than {} metadata entries", what_, kMaxMetadata);
    key_ = name;
  }

  const std::string& what_;
  Tensor tensor_;
  TensorOffsets at_;
  std::string key_;  // of metadata
  Field field_ = kNone;
  unsigned seen_ = 0;  // fields of this tensor
  int numbers_ = 0;    // of its data_offsets
  int depth_ = 0;
  bool in_list_ = false;
  bool in_metadata_ = false;
  bool had_metadata_ = false;
};

// Dimensions of zero do not excuse impossible other ones.
std::uint64_t checked_bytes(const Tensor& tensor, const std::string& what) {
  std::uint64_t believed = size_of(tensor.dtype);
  bool empty = false;
  for (const std::int64_t dim : tensor.shape) {
    const auto size = static_cast<std::uint64_t>(std::max<std::int64_t>(dim, 1));
    empty |= dim == 0;
    if (size > kMaxTensorBytes / believed)
      fail(ErrorKind::kData, "{}: the shape of tensor {} multiplies to more than 2^56 bytes", what,
           shown(tensor.name));
    believed *= size;
  }
  return empty ? 0 : believed;
}

std::string_view header_of(std::span<const std::byte> bytes, const std::string& what) {
  std::uint64_t length = 0;
  if (bytes.size() >= sizeof(length)) std::memcpy(&length, bytes.data(), sizeof(length));
  const bool plausible = bytes.size() > sizeof(length) && length <= kMaxHeaderBytes &&
                         length >= 2 && length <= bytes.size() - sizeof(length) &&
                         bytes[sizeof(length)] == std::byte{'{'};
  if (plausible) return {reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length};

  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 64));
  refuse_pointer(text, what);
  if (text.substr(0, 2) == "PK")
    fail(ErrorKind::kData,
         "{}: is a zip archive (torch.save), not safetensors; convert it with safetensors.torch "
         "first",
         what);
  if (text.size() > 1 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5)
    fail(ErrorKind::kData,
         "{}: is a Python pickle, which may run code, not safetensors; convert it with "
         "safetensors.torch first",
         what);
  if (bytes.size() < sizeof(length) + 2)
    fail(ErrorKind::kData, "{}: {} bytes are too few for a safetensors file", what, bytes.size());
  if (length > kMaxHeaderBytes || length > bytes.size() - sizeof(length))
    fail(ErrorKind::kData,
         "{}: header length {} in a file of {} bytes (limit 100000000): cut short or not "
         "safetensors",
         what, length, bytes.size());
  fail(ErrorKind::kData, "{}: the header does not begin with '{{': not safetensors", what);
}

// Throws Error{kData} where two are equal.
std::vector<std::uint32_t> sorted_names(const std::vector<Tensor>& tensors,
                                        const std::string& what) {
  const auto name = [&](std::uint32_t tensor) -> const std::string& {
    return tensors[tensor].name;
  };
  std::vector<std::uint32_t> numbers(tensors.size());
  std::iota(numbers.begin(), numbers.end(), 0u);
  std::ranges::sort(numbers, {}, name);
  const auto twice = std::ranges::adjacent_find(numbers, {}, name);
  if (twice != numbers.end())
    fail(ErrorKind::kData, "{}: {} appears twice in the header", what, shown(name(*twice)));
  return numbers;
}

}  // namespace

std::string_view safetensors_type(DType type) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](auto& t) { return t.second == type; })
      ->first;
}

const Tensor* TensorTable::find(std::string_view name) const {
  const auto at = [&](std::uint32_t tensor) -> std::string_view { return tensors[tensor].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, at);
  return found == by_name.end() || at(*found) != name ? nullptr : &tensors[*found];
}

TensorTable parse_safetensors(std::span<const std::byte> bytes, const std::string& what) {
  const std::string_view header = header_of(bytes, what);
  HeaderReader reader(what);
  read_json(header, reader);

  const std::span<const std::byte> data = bytes.subspan(sizeof(std::uint64_t) + header.size());
  std::vector<std::uint32_t> order(reader.tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](std::uint32_t tensor) { return reader.offsets[tensor]; });
  TensorTable table{.tensors = {}, .metadata = std::move(reader.metadata)};
  table.tensors.reserve(order.size());
  std::uint64_t at = 0;
  for (const std::uint32_t index : order) {
    Tensor& tensor = reader.tensors[index];
    const auto [begin, end] = reader.offsets[index];
    if (begin != at)
      fail(ErrorKind::kData, "{}: tensor {} begins at {}, {} the end of the one before it at {}",
           what, shown(tensor.name), begin, begin > at ? "leaving a hole after" : "overlapping",
           at);
    const std::uint64_t needed = checked_bytes(tensor, what);
    if (end < begin || end - begin != needed)
      fail(ErrorKind::kData,
           "{}: tensor {} needs {} bytes for its shape but has data_offsets [{}, {}]", what,
           shown(tensor.name), needed, begin, end);
    if (end > data.size())
      fail(ErrorKind::kData, "{}: tensor {} ends at {}, but there are {} bytes of data: cut short",
           what, shown(tensor.name), end, data.size());
    tensor.bytes = data.subspan(begin, needed);
    table.tensors.push_back(std::move(tensor));
    at = end;
  }
  if (at != data.size())
    fail(ErrorKind::kData, "{}: {} bytes follow the last tensor", what, data.size() - at);
  table.by_name = sorted_names(table.tensors, what);
  return table;
}

FileDigest stream_safetensors(const Path& path, std::span<const TensorInfo> tensors,
                              const TensorMetadata& metadata, TensorOrder order,
                              const TensorBytes& bytes, os::FileSystem& files) {
  std::vector<std::size_t> sorted(tensors.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  if (order == TensorOrder::kOfficial)
    std::sort(sorted.begin(), sorted.end(), [&](std::size_t a, std::size_t b) {
      const std::size_t wide_a = size_of(tensors[a].dtype), wide_b = size_of(tensors[b].dtype);
      return wide_a != wide_b ? wide_a > wide_b : tensors[a].name < tensors[b].name;
    });

  Json header = Json::object();
  if (!metadata.empty()) header[kMetadataKey] = metadata;
  std::uint64_t at = 0;
  std::unordered_set<std::string_view> names{kMetadataKey};
  std::vector<std::uint64_t> sizes(tensors.size());
  for (const std::size_t index : sorted) {
    const TensorInfo& tensor = tensors[index];
    TRIREME_CHECK(names.insert(tensor.name).second, "tensor name {} is taken", tensor.name);
    const std::int64_t numel = std::accumulate(tensor.shape.begin(), tensor.shape.end(),
                                               std::int64_t{1}, std::multiplies<>());
    TRIREME_CHECK(numel >= 0, "tensor {} has {} elements", tensor.name, numel);
    sizes[index] = static_cast<std::uint64_t>(numel) * size_of(tensor.dtype);
    header.push_back({tensor.name,
                      {{"dtype", safetensors_type(tensor.dtype)},
                       {"shape", tensor.shape},
                       {"data_offsets", {at, at + sizes[index]}}}});
    at += sizes[index];
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  TRIREME_CHECK(text.size() <= kMaxHeaderBytes, "header of {} bytes", text.size());

  DigestWriter file(path, files);
  const std::uint64_t length = text.size();
  file.write(std::as_bytes(std::span(&length, 1)));
  file.write(text);
  for (const std::size_t index : sorted) {
    const std::span<const std::byte> data = bytes(index);
    TRIREME_CHECK(data.size() == sizes[index], "tensor {} has {} bytes instead of {}",
                  tensors[index].name, data.size(), sizes[index]);
    file.write(data);
  }
  return file.finish();
}

}  // namespace trireme::formats
