// Short texts: sizes, addresses, meshes, axes, patterns of names, names of checkpoints.
#include "tests/fuzz/target.h"
#include "trireme/base/bytes.h"
#include "trireme/base/os/address.h"
#include "trireme/base/patterns.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/plan/mesh/mesh.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  if (const auto bytes = parse_bytes(text))
    fuzz::expect(bytes->count >= 0 && parse_bytes(exact_text(*bytes)) == bytes, "another size");
  if (const auto address = os::parse_address(text))
    fuzz::expect(os::parse_address(os::print(*address)) == address, "another address");
  if (const auto step = formats::step_of(text))
    fuzz::expect(text == "step-" + std::to_string(*step), "another step");
  fuzz::takes([&] { fuzz::expect(print(mesh::parse_mesh(text)) == text, "another mesh"); });
  fuzz::takes([&] { fuzz::expect(print(mesh::parse_axes(text)) == text, "other axes"); });
  fuzz::takes([&] {
    check_patterns("f", text);
    select("f", text, {"embed", "block.0", "block.11", "block.11.lora", std::string(100, 'a')});
  });
  return 0;
}
