// Islands as a user starts them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

#include "trireme/base/fs.h"

namespace trireme::app::islands_delay_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class IslandCommands : public ::testing::Test {
 protected:
  IslandCommands() {
    std::string text;
    for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i) + "];\n";
    desk_.write("text.txt", text);
    desk_.write("job.yaml",
                "model: {layers: 1, hidden: 32, heads: 2, seq_len: 16}\ndata: {path: text.txt}\n"
                "run: {steps: 6, global_batch: 8, micro_batch: 2}\n"
                "checkpoint: {every: 2, async: false}\n");
  }
  Result train(std::vector<std::string> more) const {
    more.insert(more.begin(), {"train", "job.yaml"});
    return desk_.run(more);
  }
  std::string last_line() const {
    const std::string text = read_file(desk_ / "run/metrics.jsonl");
    const std::size_t loss = text.rfind("\"loss\"");
    return text.substr(loss, text.find(',', loss) - loss);
  }

  Desk desk_;
};

// The delay of outer steps is found before a run, written down, and kept by a resume.
TEST_F(IslandCommands, TheDelayIsFoundOnce) {
  const std::vector<std::string> islands = {
      "--out", "run", "--ranks", "2", "--set", "network.outer=islands:2,streaming,every:4"};
  const Result first = train(islands);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(first.out, HasSubstr("find      network.outer delay:1: a fragment takes"));
  EXPECT_THAT(read_file(desk_ / "run/job.lock.yaml"),
              HasSubstr("islands:2,every:4,delay:1,fragments:1,blend:0.5,lr:0.4,codec:f4,back:q8"));
  const std::string whole = last_line();
  std::filesystem::remove_all(desk_ / "run/checkpoints/step-6");
  const Result resumed = train(islands);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
  EXPECT_THAT(resumed.out, Not(HasSubstr("find ")));
  EXPECT_EQ(last_line(), whole);
  desk_.set("RANK", "0");
  desk_.set("WORLD_SIZE", "2");
  desk_.set("MASTER_ADDR", "127.0.0.1");
  desk_.set("MASTER_PORT", "29511");
  const Result launched =
      train({"--out", "other", "--set", "network.outer=islands:2,every:4,delay:auto"});
  EXPECT_EQ(launched.exit_code, 2);
  EXPECT_THAT(launched.err, HasSubstr("hosts that start apart may find different delays"));
}

}  // namespace
}  // namespace trireme::app::islands_delay_test

#endif
