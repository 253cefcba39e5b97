// GPT-NeoX's sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/config/error_of.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/rope.h"

namespace trireme::config::neox_test {
namespace {

using testing::HasSubstr;

Job job_with(const std::vector<std::string>& sets) {
  Job job = parse_job("model: {family: neox, hidden: 64, heads: 4, vocab: 32}", "");
  for (const std::string& set : sets) apply_set(job, set);
  return job;
}

TEST(Neox, ResolvedJobsAreReadAgain) {
  const Job job = resolve(job_with({"neox.rotary_fraction=0.5"}), 1, {});
  EXPECT_EQ(job.model.ffn, 256);
  EXPECT_EQ(rotated_channels(job.model, job.neox.rotary_fraction), 8);
  EXPECT_EQ(resolve(parse_job(print_yaml(job), ""), 1, {}), job);
}

TEST(Neox, ChannelsThatDoNotTurnHaveFrequencyZero) {
  const Job job = resolve(job_with({"model.rope_theta=16"}), 1, {});
  const auto frequencies = [&](double fraction) {
    return rope_of(job.model, fraction).frequencies;
  };
  EXPECT_EQ(frequencies(job.neox.rotary_fraction),
            (std::vector<double>{1, 0.25, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(frequencies(0), std::vector<double>(8));
}

TEST(Neox, WhatItCannotHaveIsRefusedByKey) {
  const auto refused = [](const std::vector<std::string>& sets) {
    return usage_error_of([&] { resolve(job_with(sets), 1, {}); });
  };
  EXPECT_THAT(
      refused({"neox.rotary_fraction=0.2"}),
      HasSubstr("neox.rotary_fraction=0.2 of 16 channels a head are 3, which is odd; rotary "
                "positions turn pairs, so set neox.rotary_fraction=0.25"));
  // 30 / 52 of 52 channels are 29.
  EXPECT_THAT(refused({"model.hidden=208", "neox.rotary_fraction=0.56"}),
              HasSubstr("are 29, which is odd"));
  const std::string text = refused({"model.hidden=208", "neox.rotary_fraction=0.56"});
  const std::string remedy = text.substr(text.find("neox.rotary_fraction=", text.find("set ")));
  const Job even = resolve(job_with({"model.hidden=208", remedy}), 1, {});
  EXPECT_EQ(rotated_channels(even.model, even.neox.rotary_fraction), 30);
  EXPECT_THAT(refused({"model.hidden=60"}),
              HasSubstr("15 per head: rotary positions need a multiple of 2; nearest that work: "
                        "model.hidden=56"));
  EXPECT_THAT(refused({"model.kv_heads=2"}),
              HasSubstr("one key-value head per head; set model.kv_heads=4"));
  EXPECT_THAT(refused({"model.dropout=0.1"}), HasSubstr("family neox does not use it"));
  EXPECT_THAT(refused({"model.rope_scaling=linear factor=2"}),
              HasSubstr("family neox does not use it"));
}

}  // namespace
}  // namespace trireme::config::neox_test
