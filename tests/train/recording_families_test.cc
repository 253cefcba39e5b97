// Recordings of every family are the same under every layout that it takes, whatever the number of rows, and a difference
// is named at the node that it begins at.
#include <ATen/ops/full.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/family_jobs.h"
#include "tests/harness/recordings.h"
#include "tests/harness/vjepa_jobs.h"
#include "trireme/base/error.h"
#include "trireme/train/recording/compare.h"
#include "trireme/train/recording/recording_parts.h"

namespace trireme::train::recording_families_test {
namespace {

using config::Family;
using harness::record_layout;

const std::vector<std::string> kVicreg = {"vicreg.weight=0.5", "vicreg.widths=[8, 8]",
                                          "parallel.schedule=gpipe"};

struct Subject {
  std::string name;
  config::Job job;
  std::set<std::string> varying{};  // some nodes whose rows differ from micro-batch to micro-batch
};

config::Job four(config::Job job) {
  job.run.global_batch = 4;
  return job;
}

std::vector<Subject> subjects() {
  using harness::chunked_job;
  using harness::vjepa_job;
  return {{"jepa", four(vjepa_job(Family::kJepa)), {"embed", "block.1"}},
          {"hvjepa", four(vjepa_job(Family::kHvjepa)), {"chunk/x0", "teacher.chunk/t0", "norm"}},
          {"hvjepa_vicreg", four(vjepa_job(Family::kHvjepa, kVicreg)), {"chunk/places"}},
          {"probe", four(vjepa_job(Family::kProbe))},
          {"probe_chunked", four(chunked_job(Family::kProbe)), {"tower.chunk/tower.x0"}},
          {"jepa_ac", four(vjepa_job(Family::kJepaAc))},
          {"jepa_ac_chunked", four(chunked_job(Family::kJepaAc)), {"tower.block.0"}},
          {"vit", harness::vit_job()},
          {"clip", harness::clip_job()},
          {"vlm", harness::vlm_job(), {"vision.embed", "projector"}},
          {"vlm_clips", four(vjepa_job(Family::kVlm))},
          {"arrcoc", harness::arrcoc_job()},
          {"hnet", harness::hnet_job(), {"s0.route/chunks.0", "s1.route/chunks.1", "s2.main.0"}},
          {"mamba", harness::mamba_job(), {"s0.route/starts.1"}}};
}

class Families : public testing::TestWithParam<Subject> {};

void expect_alike(const Recording& one, const config::Job& job, const std::string& layout) {
  SCOPED_TRACE(layout);
  const std::vector<Comparison> rows = compare(one, record_layout(job, layout));
  for (const Comparison& row : rows) {
    SCOPED_TRACE(fmt::format("step {} {} {}", row.step, name(row.kind), row.name));
    EXPECT_TRUE(row.compared) << row.why_not;
    EXPECT_LE(row.relative, default_tolerance(DType::kF64));
    EXPECT_EQ(row.strays, 0);
  }
}

TEST_P(Families, HaveEveryNodeAndParameter) {
  const Recording one = record_layout(GetParam().job, "");
  std::set<std::string> varying;
  int activations = 0;
  for (const RecordedTensor& tensor : one.tensors) {
    if (!tensor.recorded()) {
      EXPECT_EQ(tensor.kind, Kind::kGradient) << tensor.name;  // of what does not train
      continue;
    }
    EXPECT_EQ(std::ssize(tensor.values), tensor.numel()) << tensor.name;
    activations += tensor.kind == Kind::kActivation;
    if (std::ranges::adjacent_find(tensor.rows, std::ranges::not_equal_to{}) != tensor.rows.end())
      varying.insert(tensor.name);
  }
  EXPECT_GE(activations, 2 * 4);
  for (const std::string& node : GetParam().varying) EXPECT_TRUE(varying.contains(node)) << node;
}

TEST_P(Families, AreAlikeUnderEveryLayout) {
  const config::Job& job = GetParam().job;
  const Recording one = record_layout(job, "");
  for (const char* layout :
       {"dp_shard=2,zero=3", "dp_shard=2,dp_replicate=2,zero=1", "recompute.policy=full", "tp=2",
        "cp=2", "pp=2", "tp=2,cp=2,zero=2", "tp=2,pp=2", "cp=2,dp_shard=2,zero=3"})
    expect_alike(one, job, layout);
}

// Rows of the same samples, in whatever micro-batches.
TEST_P(Families, AreAlikeInMicroBatchesOfOtherSizes) {
  const config::Job& job = GetParam().job;
  const Recording one = record_layout(job, "");
  const std::vector<Comparison> rows = compare(one, record_layout(job, "run.micro_batch=2"));
  for (const Comparison& row : rows) {
    SCOPED_TRACE(fmt::format("step {} {} {}", row.step, name(row.kind), row.name));
    if (!row.compared) {
      EXPECT_THAT(row.why_not, testing::HasSubstr("have other sizes"));
    }
    EXPECT_LE(row.relative, default_tolerance(DType::kF64));
  }
  EXPECT_GT(std::ranges::count(rows, true, &Comparison::compared), std::ssize(rows) * 3 / 4);
}

// In every value of the second layout in turn: an element, or a row that is not there.
TEST_P(Families, WithADifferenceNameItsNode) {
  const config::Job& job = GetParam().job;
  const Recording one = record_layout(job, "", 1);
  const Recording other = record_layout(job, "tp=2", 1);
  const auto first = [&](const Recording& recording) {
    const std::vector<Comparison> rows = compare(one, recording);
    const auto found = std::ranges::find_if(
        rows, [](const Comparison& row) { return row.relative > default_tolerance(DType::kF64); });
    return found == rows.end() ? Comparison{.name = "none"} : *found;
  };
  for (std::size_t i = 0; i < other.tensors.size(); ++i) {
    const RecordedTensor& tensor = other.tensors[i];
    if (tensor.kind != Kind::kActivation || tensor.values.empty()) continue;
    SCOPED_TRACE(tensor.name);
    Recording wrong = other;
    wrong.tensors[i].values.back() += 1 + std::abs(wrong.tensors[i].values.back());
    const Comparison named = first(wrong);
    EXPECT_EQ(named.name, tensor.name);
    EXPECT_EQ(named.kind, Kind::kActivation);
    if (tensor.rows.size() < 2 || tensor.rows.back() < 2) continue;
    wrong = other;
    --wrong.tensors[i].rows.back();
    ++wrong.tensors[i].rows.front();
    EXPECT_EQ(first(wrong).name, tensor.name);
    EXPECT_TRUE(first(wrong).rows.has_value());
  }
}

// One rank's router decides for another number of chunks than its peer's.
TEST(Copies, WithOtherRowsAreTold) {
  const config::Job job = harness::laid_out(harness::hnet_job(), "tp=2,cp=2");
  const Contents contents(job);
  std::vector<RecordedTensor> tensors = contents.tensors(0);
  const auto chunks = std::ranges::find(tensors, "s2.main.0", &RecordedTensor::name);
  ASSERT_NE(chunks, tensors.end());
  const auto place = static_cast<std::size_t>(chunks - tensors.begin());
  ASSERT_TRUE(contents.shared(place).spread);
  const std::int64_t width = chunks->shape[1];
  std::vector<Observed> seen;
  for (int rank = 0; rank < 4; ++rank)  // tp is the innermost axis
    for (std::int64_t micro_batch = 0; micro_batch < 4; ++micro_batch) {
      const std::int64_t rows = 2 + (rank == 3 && micro_batch == 2);
      seen.push_back({.rank = rank,
                      .micro_batch = micro_batch,
                      .sizes = {rows, width},
                      .values = at::full({rows * width}, rank / 2, at::kDouble)});
    }
  merge_activation(seen, contents, {}, place, *chunks);
  EXPECT_THAT(chunks->rows, testing::ElementsAre(4, 4, 4, 4));
  EXPECT_EQ(chunks->values[0], 0);
  EXPECT_EQ(chunks->values[2 * width], 1);  // the second cp rank's
  EXPECT_TRUE(chunks->strays.empty());
  ASSERT_EQ(chunks->miscounts.size(), 2u);
  const Miscount& last = chunks->miscounts.back();
  EXPECT_EQ(last.micro_batch, 2);
  EXPECT_EQ(last.rank, 3);
  EXPECT_EQ(last.rows, 5);
  EXPECT_EQ(last.peer, 0);
  EXPECT_EQ(last.peer_rows, 4);
  seen.resize(4);
  seen.pop_back();
  EXPECT_THROW(merge_activation(seen, contents, {}, place, *chunks), Error);
}

INSTANTIATE_TEST_SUITE_P(Models, Families, testing::ValuesIn(subjects()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace trireme::train::recording_families_test
