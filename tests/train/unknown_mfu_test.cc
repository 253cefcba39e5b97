// Metrics of steps whose operations or peak rate are not known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/formats/scratch.h"
#include "trireme/base/json.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/tensorboard.h"

namespace trireme::train::unknown_mfu_test {
namespace {

std::string events(const StepMetrics& metrics) {
  const formats::Scratch scratch;
  const auto board = tensorboard_callback();
  board->on_start({.out = scratch.path()});
  board->on_step(metrics);
  board->on_end({.checkpoint = {}});
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator(scratch.path()))
    text += read_file(entry.path());
  return text;
}

TEST(UnknownMfu, IsLeftOut) {
  StepMetrics metrics{.step = 1, .mfu = 0.25};
  EXPECT_EQ(parse_json(jsonl_line(metrics, {.out = {}}), "line")["mfu"], 0.25);
  EXPECT_THAT(events(metrics), ::testing::HasSubstr("train/mfu"));
  metrics.mfu = 0;
  EXPECT_FALSE(parse_json(jsonl_line(metrics, {.out = {}}), "line").contains("mfu"));
  const std::string without = events(metrics);
  EXPECT_THAT(without, ::testing::HasSubstr("train/step_ms"));
  EXPECT_THAT(without, ::testing::Not(::testing::HasSubstr("train/mfu")));
}

}  // namespace
}  // namespace trireme::train::unknown_mfu_test
