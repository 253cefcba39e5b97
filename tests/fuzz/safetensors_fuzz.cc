// A safetensors file, as it is and with a length before its header that fits.
#include <algorithm>
#include <cstring>
#include <span>

#include "tests/fuzz/target.h"
#include "trireme/formats/safetensors.h"

using namespace trireme;

namespace {

void read_safetensors(std::string_view file) {
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  fuzz::takes([&] {
    std::size_t held = 0;
    for (const formats::Tensor& tensor : formats::parse_safetensors(bytes, "f").tensors) {
      const bool inside = tensor.bytes.empty() || (tensor.bytes.data() >= bytes.data() &&
                                                   tensor.bytes.data() + tensor.bytes.size() <=
                                                       bytes.data() + bytes.size());
      fuzz::expect(inside, "a tensor outside the file");
      held += tensor.bytes.size();
    }
    fuzz::expect(held < bytes.size(), "tensors overlap");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(fuzz::text_of(data, size));
  read_safetensors(file);
  const std::size_t end = file.rfind('}');
  if (end == file.npos || end < 8) return 0;
  const std::uint64_t header = end + 1 - 8;
  std::memcpy(file.data(), &header, sizeof header);
  read_safetensors(file);
  return 0;
}
