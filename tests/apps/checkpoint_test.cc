// trireme checkpoint from end to end: what a run saved, cut anew, compared, carried over and back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/apps/program.h"

#if TRIREME_HAS_WORKER

namespace trireme::app::checkpoint_test {
namespace {

using ::testing::HasSubstr;

TEST(Checkpoints, AreComparedCutAnewAndConverted) {
  Desk desk;
  std::string text;
  for (int i = 0; i < 2000; ++i) text += "value[" + std::to_string(i * i % 97) + "];\n";
  desk.write("text.txt", text);
  desk.write("job.yaml",
             "model: {family: llama, layers: 2, hidden: 32, heads: 2, seq_len: 16}\n"
             "data: {path: text.txt}\n"
             "run: {steps: 4, global_batch: 8, micro_batch: 2}\n"
             "checkpoint: {every: 2, async: false}\n");
  const auto done = [&](const std::vector<std::string>& arguments, int code = 0) {
    const Result result = desk.run(arguments);
    EXPECT_EQ(result.exit_code, code) << result.out << result.err;
    return code == 0 || code == 1 ? result.out : result.err;
  };
  done({"train", "job.yaml", "--out", "run", "--ranks", "2", "--set", "parallel.tp=2"});

  EXPECT_THAT(done({"checkpoint", "reshard", "run", "cut", "--to", "pp=2,dp_shard=2,zero=3"}),
              HasSubstr("as 4 ranks would have written it"));
  done({"checkpoint", "verify", "cut/step-4"});
  EXPECT_THAT(done({"checkpoint", "diff", "run", "cut/step-4"}), HasSubstr("0 of "));
  EXPECT_THAT(done({"checkpoint", "diff", "run/checkpoints/step-2", "cut/step-4"}, 1),
              HasSubstr("first    param of model.embed_tokens.weight, element 0"));
  EXPECT_THAT(done({"checkpoint", "reshard", "run", "cut", "--to", "tp=2"}, 2),
              HasSubstr("is there already"));
  EXPECT_THAT(done({"checkpoint", "reshard", "run", "no", "--to", "tp=3"}, 2), HasSubstr("tp=3"));
  EXPECT_THAT(done({"train", "job.yaml", "--resume", "cut/step-4", "--out", "on", "--ranks", "4",
                    "--set", "run.steps=5"}),
              HasSubstr("done: 1 steps"));

  done({"checkpoint", "convert", "run", "theirs"});
  EXPECT_THAT(done({"checkpoint", "convert", "theirs", "back"}),
              HasSubstr("model.weights=back/step-0"));
  EXPECT_THAT(done({"checkpoint", "diff", "run", "back/step-0"}, 1), HasSubstr("0 of 20 tensors"));
  EXPECT_THAT(done({"train", "job.yaml", "--out", "tuned", "--set", "model.weights=back/step-0"}),
              HasSubstr("done: 4 steps"));
}

}  // namespace
}  // namespace trireme::app::checkpoint_test

#endif  // TRIREME_HAS_WORKER
