// A checkpoint of any tensor- and context-parallel layout continues under any other.
#include "trireme/checkpoint/convert/reshard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "tests/formats/scratch.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/model/families/describe.h"
#include "trireme/model/layout.h"
#include "trireme/plan/passes/compile.h"
#include "trireme/train/job_session.h"

namespace trireme::train::reshard_test {
namespace {

using Layout = std::vector<std::string>;

config::Job job_of(const Layout& layout) {
  config::Job job;
  job.model = {.family = config::Family::kLlama,
               .layers = 2,
               .hidden = 48,
               .heads = 6,
               .kv_heads = 3,
               .ffn = 50,
               .vocab = 67,
               .seq_len = 24};
  job.precision.compute = DType::kF64;
  job.optim.eps = 1e-4;
  job.run.global_batch = 4;
  job.parallel.dp_shard = 1;
  for (const std::string& set : layout) config::apply_set(job, set);
  const config::Parallel& parallel = job.parallel;
  return config::resolve(
      job, parallel.pp * parallel.dp_replicate * parallel.dp_shard * parallel.cp * parallel.tp, {});
}

int world_of(const config::Job& job) {
  const config::Parallel& p = job.parallel;
  return p.pp * p.dp_replicate * p.dp_shard * p.cp * p.tp;
}

JobSession::Load load_of(const config::Job& job) {
  return [&job](std::int64_t first) {
    return loaders::random_tokens(first, job.run.micro_batch, job.model.seq_len, job.model.vocab,
                                  job.data.documents);
  };
}

// The step-th step from the checkpoint `from`, or from seed weights; leaves ROOT/step-N behind.
exec::StepResult step(const Layout& layout, std::int64_t index, const Path& from,
                      const Path& root) {
  const config::Job job = job_of(layout);
  exec::StepResult result;
  std::filesystem::create_directories(root);
  comm::run_local_ranks(world_of(job), 60, [&](comm::World& world) {
    JobSession steps(job, world);
    exec::Units& units = steps.session().units();
    const std::vector<model::UnitSpec>& specs = steps.session().model().spec.units;
    if (!from.empty()) {
      checkpoint::load(from, units, specs);
      units.refresh();
    }
    const exec::StepResult mine = steps.train(index, false, load_of(job));
    checkpoint::save(root, {.step = index + 1, .job = config::print_yaml(job)}, units, specs,
                     world);
    if (world.rank() == 0) result = mine;
  });
  return result;
}

TEST(Reshard, ContinuesUnderAnyLayout) {
  const Path desk =
      std::filesystem::temp_directory_path() / ("trireme_reshard_" + std::to_string(::getpid()));
  std::filesystem::remove_all(desk);
  step({}, 0, {}, desk / "one");
  const exec::StepResult expected = step({}, 1, desk / "one" / "step-1", desk / "one");
  const std::vector<Layout> layouts = {{},
                                       {"parallel.tp=2", "parallel.zero=1", "parallel.dp_shard=2"},
                                       {"parallel.tp=4", "parallel.sequence_parallel=false"},
                                       {"parallel.tp=3", "parallel.cp=2", "parallel.zero=3"},
                                       {"parallel.cp=2", "parallel.dp_shard=2", "parallel.zero=2"}};
  for (std::size_t a = 0; a < layouts.size(); ++a) {
    const Path root = desk / std::to_string(a);
    step(layouts[a], 0, {}, root);
    for (std::size_t b = 0; b < layouts.size(); ++b) {
      const exec::StepResult result = step(layouts[b], 1, root / "step-1", root);
      EXPECT_NEAR(result.loss, expected.loss, 1e-11) << a << " to " << b;
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-11) << a << " to " << b;
    }
  }
  std::filesystem::remove_all(desk);
}

// Each cp shares the documents in chunks of its own. Under the same cp the step has the bits of a run without a stop.
TEST(Reshard, ContinuesDocumentsUnderAnyContextRanks) {
  const formats::Scratch desk;
  const Layout documents = {"data.documents=true", "model.seq_len=192"};
  step(documents, 0, {}, desk / "one");
  const exec::StepResult expected = step(documents, 1, desk / "one/step-1", desk / "one");
  std::vector<Layout> layouts = {{"parallel.cp=2"},
                                 {"parallel.cp=4", "parallel.context=all_gather"},
                                 {"parallel.cp=3", "parallel.zero=3"}};
  for (Layout& layout : layouts) layout.insert(layout.end(), documents.begin(), documents.end());
  for (std::size_t a = 0; a < layouts.size(); ++a) {
    const Path root = desk / std::to_string(a);
    step(layouts[a], 0, {}, root);
    for (std::size_t b = 0; b < layouts.size(); ++b) {
      const exec::StepResult result = step(layouts[b], 1, root / "step-1", root);
      EXPECT_NEAR(result.loss, expected.loss, 1e-11) << a << " to " << b;
      EXPECT_NEAR(result.grad_norm, expected.grad_norm, 1e-11) << a << " to " << b;
      if (a != b) continue;
      const config::Job job = job_of(layouts[a]);
      comm::run_local_ranks(world_of(job), 60, [&](comm::World& world) {
        JobSession steps(job, world);
        steps.train(0, false, load_of(job));
        const exec::StepResult whole = steps.train(1, false, load_of(job));
        EXPECT_EQ(whole.loss, result.loss);
        EXPECT_EQ(whole.grad_norm, result.grad_norm);
      });
    }
  }
}

// The files that a run under the layout writes of what it has read, and those that no run has touched.
std::map<std::string, std::uint64_t> files_of(const Path& checkpoint) {
  std::map<std::string, std::uint64_t> hashes;
  for (const auto& file : formats::verify_checkpoint(checkpoint).files)
    hashes[file.name] = file.hash;
  return hashes;
}

TEST(Reshard, WithoutTensorsGivesTheFilesThatRanksWouldWrite) {
  const formats::Scratch desk;
  step({}, 0, {}, desk / "one");
  const std::vector<Layout> layouts = {
      {"parallel.tp=2", "parallel.zero=1", "parallel.dp_shard=2"},
      {"parallel.tp=3", "parallel.cp=2", "parallel.zero=3"},
      {"parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=3"},
      {"parallel.dp_replicate=2", "parallel.dp_shard=2", "parallel.zero=2"},
      {"parallel.dp_shard=4"}};
  Path before = desk / "one/step-1";
  for (std::size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(testing::PrintToString(layouts[i]));
    const config::Job job = job_of(layouts[i]);
    const Path root = desk / ("ranks" + std::to_string(i));
    std::filesystem::create_directories(root);
    comm::run_local_ranks(world_of(job), 600, [&](comm::World& world) {
      JobSession session(job, world);
      exec::Units& units = session.session().units();
      const std::vector<model::UnitSpec>& specs = session.session().model().spec.units;
      checkpoint::load(before, units, specs);
      units.refresh();
      checkpoint::save(root, {.step = 1, .job = config::print_yaml(job)}, units, specs, world);
    });
    convert::Target to{.job = job, .model = model::describe(job), .plan = {}};
    to.plan = plan::compile(to.model.program, model::mesh_of(job), model::recipe_of(job),
                            model::grid_of(job, to.model));
    const Path cut =
        convert::reshard(desk / "one/step-1", to, desk / ("bytes" + std::to_string(i)));
    EXPECT_EQ(files_of(cut), files_of(root / "step-1"));
    EXPECT_NE(files_of(cut), files_of(before));
    before = cut;
  }
}

}  // namespace
}  // namespace trireme::train::reshard_test
