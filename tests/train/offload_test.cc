// Whatever waits outside memory, in whatever layout, trains the same model, bit for bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/harness/needs.h"
#include "tests/harness/scratch.h"
#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"

namespace trireme::train::offload_test {
namespace {

using config::Job;
using harness::expect_same;
using harness::JobTrace;
using harness::print;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 2;

Job small(const std::string& recipe, const Sets& sets) {
  Job job = harness::six_nodes(recipe, sets);
  if (job.offload.uses(Tier::kNvme))
    job.offload.path = std::filesystem::temp_directory_path().string();
  return job;
}

const std::vector<Sets> kOffloads = {
    {"offload.optimizer=nvme"},
    {"offload.optimizer=host:0.4"},
    {"offload.params=nvme"},
    {"offload.grads=nvme"},
    {"offload.optimizer=nvme", "offload.params=host", "offload.grads=nvme", "recompute.policy=full",
     "offload.activations=nvme"},
    {"offload.optimizer=host", "offload.params=nvme", "offload.grads=host",
     "recompute.policy=full:2", "offload.activations=host"}};

struct Layout {
  const char* name;
  Sets sets;
};
const std::vector<Layout> kLayouts = {
    {"one", {}},
    {"bf16", {"precision.compute=bf16"}},
    {"one_micro_batch", {"run.micro_batch=8"}},
    {"fast", {"precision.numerics=fast"}},
    {"tied", {"model.tied=true"}},
    {"replicas", {"parallel.dp_replicate=2"}},
    {"zero1", {"parallel.dp_shard=2", "parallel.zero=1", "precision.compute=bf16"}},
    {"zero2", {"parallel.dp_shard=2", "parallel.zero=2"}},
    {"zero3", {"parallel.dp_shard=2", "parallel.zero=3", "precision.compute=bf16"}},
    {"hybrid", {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=3"}},
    {"tp", {"parallel.tp=2"}},
    {"cp", {"parallel.cp=2", "parallel.zero=3"}},
    {"pp", {"parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=3"}},
    {"pp_tied", {"parallel.pp=2", "model.tied=true"}},
    {"interleaved", {"parallel.pp=2", "parallel.schedule=interleaved"}},
    {"zero_bubble", {"parallel.pp=2", "parallel.schedule=zb_h1", "precision.compute=bf16"}},
    {"int8", {"optim.states=int8", "precision.compute=bf16"}},
};

class Offload : public testing::TestWithParam<Layout> {};

TEST_P(Offload, TrainsAsInMemory) {
  for (const char* recipe : {"gpt_tiny.yaml", "llama_tiny.yaml"}) {
    const JobTrace reference = run_job(small(recipe, GetParam().sets), kSteps);
    for (const Sets& offload : kOffloads) {
      SCOPED_TRACE(std::string(recipe) + " " + print(GetParam().sets + offload));
      expect_same(reference, run_job(small(recipe, GetParam().sets + offload), kSteps));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Offload, testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(OffloadOverTp, TrainsAsInMemory) {
  const Sets tp = {"parallel.tp=2", "parallel.sequence_parallel=false", "recompute.policy=full"};
  for (const char* recipe : {"gpt_tiny.yaml", "llama_tiny.yaml"})
    expect_same(run_job(small(recipe, tp), kSteps),
                run_job(small(recipe, tp + Sets{"offload.activations=tp"}), kSteps));
  EXPECT_THROW(run_job(small("gpt_tiny.yaml",
                             {"parallel.tp=2", "recompute.policy=full", "offload.activations=tp"}),
                       kSteps),
               Error);
}

TEST(OffloadDirectory, HasToBeNamedOutsideARun) {
  Job job = small("gpt_tiny.yaml", {"offload.optimizer=nvme"});
  job.offload.path.clear();
  try {
    run_job(job, 1);
    ADD_FAILURE() << "ran without a directory";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_THAT(error.what(), testing::HasSubstr("set offload.path"));
  }
}

}  // namespace
}  // namespace trireme::train::offload_test
