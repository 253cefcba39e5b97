// A line of events.jsonl: one line of JSON, whatever the words in it hold.
#include <chrono>
#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"
#include "trireme/base/json.h"
#include "trireme/formats/event.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  const auto word = [&](std::size_t i) { return std::string(text.substr(size / 5 * i, size / 5)); };
  const std::string line = formats::event_line({.kind = word(0),
                                                .rank = 1,
                                                .host = word(1),
                                                .op = word(2),
                                                .cause = word(3),
                                                .action = word(4)},
                                               std::chrono::system_clock::time_point{});
  fuzz::expect(line.find('\n') == line.npos, "more than one line");
  fuzz::expect(fuzz::takes([&] { parse_json(line, "f"); }), "not JSON");
  return 0;
}
