// parse_json, which all JSON from outside goes through.
#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"
#include "trireme/base/json.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::takes([&] {
    const Json json = parse_json(fuzz::text_of(data, size), "f");
    fuzz::expect(parse_json(json.dump(), "f") == json, "reads what it wrote as something else");
  });
  return 0;
}
