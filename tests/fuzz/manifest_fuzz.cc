// The manifest of a checkpoint, as it is and as a forger would send it: with a digest that fits.
#include "tests/fuzz/target.h"
#include "trireme/base/hash.h"
#include "trireme/formats/manifest.h"

using namespace trireme;

namespace {

void read(std::string_view text) {
  fuzz::takes([&] {
    const std::string printed = print(formats::parse_manifest(text, "f"));
    fuzz::expect(print(formats::parse_manifest(printed, "f")) == printed, "prints something else");
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  read(text);
  const std::string body(text.substr(0, text.rfind(",\n \"digest\"")));
  read(body + ",\n \"digest\": \"" + hex64(hash64(body)) + "\"\n}\n");
  return 0;
}
