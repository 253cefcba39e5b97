// NumPy's arrays, packed or one alone.
#include <span>

#include "tests/fuzz/target.h"
#include "trireme/data/media/npz.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto look = [&](const media::NpyArray& array) {
    fuzz::expect(array.bytes.size() <= size, "an array larger than its file");
    fuzz::expect(static_cast<std::int64_t>(array.values().size()) == array.count(),
                 "values that are not counted");
  };
  fuzz::takes([&] { look(media::parse_npy(bytes, "f")); });
  fuzz::takes([&] {
    for (const auto& [name, array] : media::parse_npz(bytes, "f"))
      fuzz::expect(array.bytes.size() <= size, "an array larger than its file");
  });
  return 0;
}
