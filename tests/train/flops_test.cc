// The operations that a step reports, which MFU is made of, against a walk over the matrix products that LibTorch runs.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/harness/small_jobs.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/config/synthetic.h"
#include "trireme/train/job_session.h"
#include "trireme/train/run/samples.h"

namespace trireme::train {
namespace {

using harness::Sets;
using harness::operator+;

// Of this thread's matrix products, which in fp64 all go through LibTorch's dispatcher, those of attention's tiles too.
thread_local double walked = 0;

double size_of_dim(const c10::IValue& tensor, std::int64_t dim) {
  return static_cast<double>(tensor.toTensor().size(dim));
}

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  const std::string name = function.name();
  const auto inputs = function.inputs();
  const auto product = [&](std::size_t left, std::size_t right) {
    walked +=
        2.0 * static_cast<double>(inputs[left].toTensor().numel()) * size_of_dim(inputs[right], -1);
  };
  if (name == "aten::mm" || name == "aten::bmm") product(0, 1);
  if (name == "aten::addmm" || name == "aten::addmm_" || name == "aten::baddbmm") product(1, 2);
  if (name == "aten::mv") walked += 2.0 * static_cast<double>(inputs[0].toTensor().numel());
  if (name == "aten::dot") walked += 2.0 * size_of_dim(inputs[0], 0);
  return nullptr;
}

struct Flops {
  double reported = 0;
  double walked = 0;  // of all ranks
};

// Of a job's second step.
Flops flops_of(const config::Job& job, int world) {
  std::vector<Flops> ranks(static_cast<std::size_t>(world));
  comm::run_local_ranks(world, 300, [&](comm::World& own) {
    JobSession session(job, own);
    const JobSession::Load load = load_of(job, job.run.micro_batch);
    session.train(0, false, load);
    const at::RecordFunctionGuard on(true);
    const at::CallbackHandle handle =
        at::addThreadLocalCallback(at::RecordFunctionCallback(&on_operator)
                                       .needsInputs(true)
                                       .scopes({at::RecordScope::FUNCTION}));
    walked = 0;
    const double reported = session.train(1, false, load).flops;
    at::removeCallback(handle);
    ranks[own.rank()] = {reported, walked};
  });
  Flops sum{.reported = ranks[0].reported};
  for (const Flops& rank : ranks) {
    EXPECT_EQ(rank.reported, sum.reported);
    sum.walked += rank.walked;
  }
  return sum;
}

config::Job job_of(const std::string& recipe, const Sets& sets, int world = 1) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / (recipe + ".yaml"));
  for (const std::string& set : Sets{"precision.compute=fp64", "run.eval_every=0"} + sets)
    config::apply_set(job, set);
  const config::SyntheticSource* known = config::synthetic_source(job.data.source);
  return config::resolve(job, world, known != nullptr ? known->facts : config::DatasetFacts{});
}

struct Case {
  const char* name;
  const char* recipe;
  Sets sets;
};

void PrintTo(const Case& one, std::ostream* out) { *out << one.name; }

// Sequences are short for their width: what tiles compute of scores that a mask hides, and once more in backward, is
// no operation of the model.
const std::vector<Case> kCases = {
    {"gpt",
     "gpt_tiny",
     {"model.hidden=128", "model.seq_len=16", "model.vocab=256", "run.micro_batch=2"}},
    {"llama",
     "llama_tiny",
     {"model.hidden=128", "model.seq_len=16", "model.vocab=256", "run.micro_batch=2"}},
    {"frozen",
     "llama_tiny",
     {"model.hidden=128", "model.seq_len=16", "model.vocab=256", "model.frozen=embed,block.0"}},
    {"dora",
     "llama_tiny",
     {"model.hidden=128", "model.seq_len=16", "model.vocab=256", "lora.rank=4", "lora.dora=true"}},
    {"vit", "vit_tiny", {"run.global_batch=4", "run.micro_batch=4"}},
    {"clip",
     "clip_tiny",
     {"model.hidden=384", "vision.hidden=192", "run.global_batch=4", "run.micro_batch=4"}},
    {"siglip",
     "clip_tiny",
     {"model.hidden=384", "vision.hidden=192", "run.global_batch=4", "run.micro_batch=4",
      "contrastive.loss=siglip"}},
    {"vjepa",
     "vjepa_tiny",
     {"run.global_batch=2", "run.micro_batch=2", "vision.hidden=384", "vision.heads=6",
      "vision.layers=2", "jepa.hidden=384", "jepa.heads=6"}},
    {"hvjepa",
     "hvjepa_tiny",
     {"run.global_batch=4", "run.micro_batch=4", "vision.hidden=768", "vision.heads=12",
      "vision.layers=2", "jepa.hidden=1152", "jepa.heads=18"}},
    {"probe", "probe_tiny", {"run.global_batch=4", "run.micro_batch=4"}},
    {"jepa_ac",
     "ac_tiny",
     {"run.global_batch=2", "run.micro_batch=2", "vision.image=32", "action.hidden=512"}},
    {"hnet",
     "hnet_tiny",
     {"model.seq_len=16", "run.global_batch=4", "hnet.hidden=512,768", "hnet.heads=8,12",
      "hnet.ffn=1024,2048"}},
    {"vlm",
     "vlm_tiny",
     {"model.hidden=384", "model.heads=6", "model.ffn=1024", "model.seq_len=48", "vision.patch=16",
      "run.global_batch=4", "run.micro_batch=2"}},
    {"arrcoc",
     "arrcoc_tiny",
     {"model.hidden=768", "model.heads=12", "vision.hidden=768", "vision.heads=12",
      "run.global_batch=2", "run.micro_batch=2"}}};

class FlopsOfFamilies : public testing::TestWithParam<Case> {};

TEST_P(FlopsOfFamilies, AreThoseOfItsProducts) {
  const Flops flops = flops_of(job_of(GetParam().recipe, GetParam().sets), 1);
  ASSERT_GT(flops.walked, 0);
  EXPECT_NEAR(flops.reported / flops.walked, 1, 0.02);
}

INSTANTIATE_TEST_SUITE_P(All, FlopsOfFamilies, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// A model's operations are the same whatever computes them again, or on several ranks.
TEST(Flops, DoNotDependOnTheLayout) {
  const auto expect_same = [](const char* recipe, const Sets& sets) {
    const double alone = flops_of(job_of(recipe, sets), 1).reported;
    for (const auto& [world, layout] :
         std::vector<std::pair<int, Sets>>{{2, {"parallel.tp=2"}},
                                           {2, {"parallel.cp=2"}},
                                           {2, {"parallel.dp_shard=2", "parallel.zero=3"}},
                                           {2, {"parallel.pp=2"}},
                                           {1, {"recompute.policy=full"}}})
      EXPECT_NEAR(flops_of(job_of(recipe, sets + layout, world), world).reported / alone, 1, 1e-3)
          << recipe << " " << harness::print(layout);
  };
  expect_same("llama_tiny", {"run.micro_batch=2", "model.vocab=256"});
  expect_same("vit_tiny", {"run.global_batch=4", "run.micro_batch=2"});
  expect_same("vjepa_tiny", {"run.global_batch=4", "run.micro_batch=2", "vision.layers=2",
                             "jepa.heads=4", "vision.heads=4"});
}

}  // namespace
}  // namespace trireme::train
