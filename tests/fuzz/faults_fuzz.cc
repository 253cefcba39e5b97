// What --faults takes.
#include "tests/fuzz/target.h"
#include "trireme/launch/faults/fault.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::takes([&] {
    for (const faults::Fault& fault : faults::parse(fuzz::text_of(data, size)))
      fuzz::expect(faults::parse(print(fault)) == std::vector{fault}, "prints another fault");
  });
  return 0;
}
