#include <cstring>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/formats/chrome_trace.h"
#include "trireme/formats/tfevents.h"

namespace trireme::formats::trace_writers_test {
namespace {

TEST(TfEvents, ChecksumIsCastagnoli) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(""), 0u);
}

template <typename T>
T load(std::string_view bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

std::uint32_t masked(std::string_view bytes) {
  const std::uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

TEST(TfEvents, RecordsAreFramedProtocolBuffers) {
  const Scratch scratch;
  EventFileWriter writer(scratch.path(), {.unix_seconds = 1700000000, .host = "h", .process = 42});
  EXPECT_EQ(writer.path().filename(), "events.out.tfevents.1700000000.h.42.0");
  writer.add_scalar("train/loss", 2.5, 300, 1700000001.5);
  writer.forget_from(200, 1700000001.5);
  writer.flush();
  const std::string file = read_file(writer.path());
  std::vector<std::string> events;
  for (std::size_t at = 0; at < file.size();) {
    const auto size = load<std::uint64_t>(file, at);
    EXPECT_EQ(load<std::uint32_t>(file, at + 8), masked(std::string_view(file).substr(at, 8)));
    events.push_back(file.substr(at + 12, size));
    EXPECT_EQ(load<std::uint32_t>(file, at + 12 + size), masked(events.back()));
    at += size + 16;
  }
  ASSERT_EQ(events.size(), 3u);
  EXPECT_THAT(events[0], ::testing::HasSubstr("\x1a\x0d"
                                              "brain.Event:2"));
  // wall_time; step 300; summary of 19 bytes {value of 17 bytes {tag, simple_value 2.5f}}.
  std::string expected = "\x09";
  const double wall = 1700000001.5;
  expected.append(reinterpret_cast<const char*>(&wall), 8);
  expected +=
      "\x10\xac\x02"
      "\x2a\x13"
      "\x0a\x11"
      "\x0a\x0a"
      "train/loss"
      "\x15";
  expected.append("\0\0\x20\x40", 4);
  EXPECT_EQ(events[1], expected);
  // Step 200; session_log {status START}.
  EXPECT_EQ(events[2], expected.substr(0, 9) + "\x10\xc8\x01" + "\x3a\x02" + "\x08\x01");
  EXPECT_THAT(refusal([&] {
                EventFileWriter(scratch.path(),
                                {.unix_seconds = 1700000000, .host = "h", .process = 42});
              }),
              ::testing::HasSubstr("exists already"));
  EXPECT_THAT(refusal([&] { EventFileWriter(scratch / "none", {}); }),
              ::testing::HasSubstr("cannot write"));
}

TEST(ChromeTrace, IsOneJsonObject) {
  const Scratch scratch;
  ChromeTrace trace(1700000000123456789);
  EXPECT_TRUE(parse_json(trace.text(), "empty")["traceEvents"].empty());
  trace.name_process(3, "rank 3", 1);
  trace.name_thread(3, 7, "comp", 0);
  trace.span({.name = "forward \"b\\0\"\n\xff",
              .category = "cpu_op",
              .start_ns = 9007199254740993,
              .duration_ns = 1500,
              .process = 3,
              .thread = 7,
              .text_args = {{"dtype", "bf16"}},
              .number_args = {{"mb", 2}}});
  trace.span({.name = "late", .category = "x", .start_ns = -1, .duration_ns = -5});
  trace.instant("step", 1000, 3);
  trace.counter("memory", 1000, 3, 123);
  EXPECT_EQ(trace.events(), 8u);
  trace.write(scratch / "trace.json");
  const std::string text = read_file(scratch / "trace.json");
  const Json json = parse_json(text, "trace");
  EXPECT_EQ(json["baseTimeNanoseconds"], 1700000000123456789);
  const Json& events = json["traceEvents"];
  ASSERT_EQ(events.size(), 8u);
  EXPECT_EQ(events[0]["args"]["name"], "rank 3");
  EXPECT_EQ(events[4]["args"]["dtype"], "bf16");
  EXPECT_EQ(events[4]["args"]["mb"], 2);
  EXPECT_EQ(events[4]["dur"], 1.5);
  EXPECT_NE(text.find("\"ts\":9007199254740.993,"), std::string::npos) << "no nanosecond is lost";
  EXPECT_EQ(events[5]["dur"], 0.0);
  EXPECT_NE(text.find("\"ts\":-0.001"), std::string::npos);
  EXPECT_EQ(events[7]["args"]["value"], 123);
}

}  // namespace
}  // namespace trireme::formats::trace_writers_test
