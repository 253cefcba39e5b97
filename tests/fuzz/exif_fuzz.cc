// What cameras note in a picture.
#include <span>

#include "tests/fuzz/target.h"
#include "trireme/data/media/exif.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int found = media::orientation(std::as_bytes(std::span(data, size)));
  fuzz::expect(found >= 1 && found <= 8, "an orientation that there is none of");
  return 0;
}
