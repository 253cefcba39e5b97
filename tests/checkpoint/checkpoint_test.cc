// Checkpoints: any data-parallel layout reads what any other wrote, bit for bit; damage is refused.
#include "trireme/checkpoint/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>

#include "tests/checkpoint/layers.h"
#include "tests/harness/count_allocations.h"
#include "tests/harness/file_limit.h"
#include "tests/harness/layouts.h"
#include "tests/harness/momentum_sgd.h"
#include "tests/harness/needs.h"
#include "tests/harness/scratch.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/saver.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/plan/compile/microbatch.h"
#include "trireme/plan/saved.h"

namespace trireme::checkpoint::checkpoint_test {
namespace {

TEST_F(CheckpointTest, AnyLayoutContinuesAnyOther) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    const std::vector<double> straight = run(layout(1, 1, 0, compute), 0, 8);
    const std::vector<Layout> layouts = {layout(1, 1, 0, compute), layout(1, 2, 1, compute),
                                         layout(1, 4, 2, compute), layout(1, 4, 3, compute),
                                         layout(2, 2, 3, compute), layout(4, 1, 0, compute)};
    for (const Layout& before : layouts)
      for (const Layout& after : layouts) {
        std::vector<double> losses = run(before, 0, 4);
        const std::vector<double> rest = run(after, 4, 8);
        losses.insert(losses.end(), rest.begin(), rest.end());
        EXPECT_EQ(losses, straight) << before.name() << " -> " << after.name();
      }
  }
}

TEST_F(CheckpointTest, DamageIsRefusedBeforeAnyTensorChanges) {
  run(layout(1, 2, 3), 0, 2);
  const Path shard = root_ / "step-2" / "rank-00001.safetensors";
  std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-1, std::ios::end);
  file.put('\x7f');
  file.close();
  try {
    run(layout(1, 1, 0), 2, 3);
    FAIL() << "a damaged checkpoint was loaded";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kData);
    EXPECT_NE(std::string(e.what()).find("rank-00001.safetensors"), std::string::npos) << e.what();
  }
}

TEST_F(CheckpointTest, FailureToWriteIsToldToEveryRankAndKeepsWhatWasThere) {
  run(layout(1, 2, 1), 0, 2);
  const auto before = formats::verify_checkpoint(root_ / "step-2");
  // A file where the directory of checkpoints should be: found on rank 0 alone.
  std::ofstream(root_ / "file") << "x";
  const Path blocked = root_ / "file";
  int told = 0;
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    harness::MomentumSgd optimizer;
    exec::Session session(layers(kWidth),
                          {.mesh = mesh::Mesh({.dp_shard = 2}), .recipe = layout(1, 2, 1).recipe},
                          world, optimizer);
    try {
      save(blocked, {.step = 3}, session.units(), session.model().spec.units, world);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::kData);
      EXPECT_NE(std::string(e.what()).find("rank 0"), std::string::npos) << e.what();
      static std::mutex mutex;
      const std::lock_guard lock(mutex);
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
  EXPECT_EQ(formats::print(formats::verify_checkpoint(root_ / "step-2")), formats::print(before));
}

// A disk that fails while a checkpoint is made of what waits there.
class FailingScratch : public CheckpointTest,
                       public testing::WithParamInterface<scratch::Engine> {};

TEST_P(FailingScratch, WhileSavingIsToldToEveryRankAndKeepsWhatWasThere) {
  const scratch::Engine engine = GetParam();
  TRIREME_NEEDS("disk engine", harness::missing(engine));
  for (const auto& [good, mode] :
       {std::pair{0, SaveMode::kAtOnce}, {2, SaveMode::kAtOnce}, {2, SaveMode::kAsync}}) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
    int told = 0;
    std::mutex mutex;
    harness::FailingDisk disk(EIO);
    comm::run_local_ranks(2, 60, [&, good = good, mode = mode](comm::World& world) {
      harness::MomentumSgd optimizer;
      plan::Recipe recipe = layout(1, 2, 1).recipe;
      recipe.offload = {.optimizer = plan::Tier::kNvme, .params = plan::Tier::kNvme};
      exec::Session session(layers(kWidth),
                            {.mesh = mesh::Mesh({.dp_shard = 2}),
                             .recipe = recipe,
                             .scratch =
                                 [&](plan::Tier tier) {
                                   return world.rank() == 0 ? harness::open_scratch(tier)
                                                            : disk.open(engine);
                                 }},
                            world, optimizer);
      const auto& specs = session.model().spec.units;
      save(root_, {.step = 2}, session.units(), specs, world);
      if (world.rank() == 1) disk.fail_after(good);
      Saver saver({.root = root_}, session.units(), specs, world);
      saver.begin({.step = 3}, mode);
      const Saved saved = saver.finish();
      EXPECT_EQ(saved.path, "");
      EXPECT_NE(saved.problem.find("rank 1"), std::string::npos) << saved.problem;
      EXPECT_NE(saved.problem.find("Input/output error"), std::string::npos) << saved.problem;
      const std::lock_guard lock(mutex);
      ++told;
    });
    EXPECT_EQ(told, 2);
    EXPECT_EQ(formats::verify_checkpoint(root_ / "step-2").step, 2);
    EXPECT_FALSE(std::filesystem::exists(root_ / "step-3"));
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, FailingScratch,
                         testing::Values(scratch::Engine::kThreads, scratch::Engine::kIoUring),
                         [](const auto& info) {
                           return info.param == scratch::Engine::kThreads ? "threads" : "io_uring";
                         });

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    return error.what();
  }
  ADD_FAILURE() << "nothing failed";
  return {};
}

std::set<std::string> names_in(const Path& directory) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.insert(entry.path().filename().string());
  return names;
}

TEST_F(CheckpointTest, AFullDiskLeavesTheLastOneAndNothingOfTheNext) {
  const std::vector<double> straight = run(layout(1, 1, 0), 0, 6);
  std::filesystem::remove_all(root_);
  std::filesystem::create_directories(root_);
  std::vector<double> losses = run(layout(1, 2, 1), 0, 2);
  const auto before = formats::verify_checkpoint(root_ / "step-2");
  for (const rlim_t bytes : {0, 1000, 10000}) {
    const harness::FileLimit limit(bytes);
    const std::string message = refusal([&] { run(layout(1, 2, 1), 2, 4); });
    EXPECT_NE(
        message.find("checkpoint of step 4 not written, those before it are untouched: rank "),
        std::string::npos)
        << message;
    EXPECT_NE(message.find(": cannot write: File too large"), std::string::npos) << message;
  }
  EXPECT_EQ(names_in(root_), std::set<std::string>{"step-2"});
  EXPECT_EQ(formats::print(formats::verify_checkpoint(root_ / "step-2")), formats::print(before));
  const std::vector<double> rest = run(layout(1, 2, 1), 2, 6);
  losses.insert(losses.end(), rest.begin(), rest.end());
  EXPECT_EQ(losses, straight);
}

TEST_F(CheckpointTest, AVanishedDirectoryIsNotMadeAgain) {
  std::filesystem::remove(root_);
  const std::string message = refusal([&] { run(layout(1, 2, 1), 0, 2); });
  EXPECT_NE(message.find("rank 0: " + root_.string() + ": is no longer there"), std::string::npos)
      << message;
  EXPECT_FALSE(std::filesystem::exists(root_));
}

// The world of a generation that is over, with nobody who says so if `fenced` is false.
class OlderWorld : public comm::World {
 public:
  OlderWorld(comm::World& world, bool fenced)
      : comm::World(world.rank(), world.size()), world_(world), fenced_(fenced) {}
  std::string_view via() const override { return world_.via(); }
  void abort(const std::string& cause) override { world_.abort(cause); }
  std::optional<std::string> cause() override { return world_.cause(); }
  void check_current() override {
    if (!fenced_) return;
    fail(ErrorKind::kPeerLost, "generation 1 of this run's ranks is over");
  }

 private:
  std::unique_ptr<comm::Group> open(const std::string& name, const std::string&,
                                    const std::vector<int>& ranks, int,
                                    const algorithm::Choice& choice) override {
    return world_.make_group(name, ranks, choice);
  }
  comm::World& world_;
  bool fenced_;
};

TEST_F(CheckpointTest, AnOlderGenerationCommitsNothing) {
  run(layout(1, 2, 1), 0, 2);
  const auto save_step_4 = [&](bool fenced, const std::function<void(std::string)>& said) {
    comm::run_local_ranks(2, 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      const Layout two = layout(1, 2, 1);
      exec::Session session(layers(kWidth), {.mesh = mesh::Mesh(two.degrees), .recipe = two.recipe},
                            world, optimizer);
      OlderWorld older(world, fenced);
      const auto save_it = [&] {
        save(root_, {.step = 4, .job = "job"}, session.units(), session.model().spec.units, older);
      };
      fenced ? said(refusal(save_it)) : save_it();
    });
  };
  save_step_4(true, [](const std::string& message) {
    EXPECT_NE(message.find("rank 0: generation 1 of this run's ranks is over"), std::string::npos)
        << message;
  });
  EXPECT_EQ(names_in(root_), std::set<std::string>{"step-2"});
  // Control: where nobody asks, it writes into the run of the newer one.
  save_step_4(false, {});
  EXPECT_EQ(names_in(root_), (std::set<std::string>{"step-2", "step-4"}));
}

// What the plan says that a rank writes, it writes.
TEST_F(CheckpointTest, BytesAreThoseOfThePlan) {
  for (const Layout& one : {layout(1, 1, 0), layout(2, 2, 3), layout(1, 4, 1), layout(4, 1, 0),
                            layout(1, 2, 2, DType::kBF16)}) {
    const mesh::Mesh mesh(one.degrees);
    comm::run_local_ranks(mesh.world(), 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      exec::Session session(layers(kWidth), {.mesh = mesh, .recipe = one.recipe}, world, optimizer);
      std::int64_t bytes = 0;
      for (const exec::StateSlice& slice : session.units().owned_slices())
        bytes += slice.count * static_cast<std::int64_t>(size_of(slice.type));
      EXPECT_EQ(plan::saved_bytes(session.plan(), world.rank()), bytes) << one.name();
    });
  }
}

// What is written behind training is what was there when it began.
TEST_F(CheckpointTest, ACopyIsWrittenWhateverHappensToTheTensors) {
  comm::run_local_ranks(2, 60, [&](comm::World& world) {
    harness::MomentumSgd optimizer;
    exec::Session session(layers(kWidth),
                          {.mesh = mesh::Mesh({.dp_shard = 2}), .recipe = layout(1, 2, 3).recipe},
                          world, optimizer);
    exec::Units& units = session.units();
    const auto& specs = session.model().spec.units;
    save(root_, {.step = 1}, units, specs, world);
    Saver saver({.root = root_}, units, specs, world);
    EXPECT_FALSE(saver.poll());
    saver.begin({.step = 2}, SaveMode::kAsync);
    for (const exec::StateSlice& slice : units.local_slices())
      units.write(slice, at::full({slice.count}, 7, comm::scalar_type(slice.type)));
    EXPECT_TRUE(saver.under_way());
    const Saved saved = saver.finish();
    EXPECT_EQ(saved.path, root_ / "step-2");
    EXPECT_EQ(saved.problem, "");
    EXPECT_FALSE(saver.under_way());
    saver.begin({.step = 3}, SaveMode::kAsync);
    std::optional<Saved> polled;
    while (!polled) polled = saver.poll();
    EXPECT_EQ(polled->step, 3);
  });
  const auto one = formats::open_checkpoint(root_ / "step-1");
  const auto two = formats::open_checkpoint(root_ / "step-2");
  const auto three = formats::open_checkpoint(root_ / "step-3");
  ASSERT_EQ(one.files.size(), 2u);
  for (const auto& [name, file] : one.files)
    for (const formats::Tensor& tensor : file.tensors()) {
      EXPECT_TRUE(std::ranges::equal(tensor.bytes, two.files.at(name).find(tensor.name)->bytes));
      EXPECT_FALSE(std::ranges::equal(tensor.bytes, three.files.at(name).find(tensor.name)->bytes))
          << "the tensors had changed";
    }
  EXPECT_EQ(two.manifest.layout.size(), 5u);
}

// Whatever the model's size: one slice beside the model.
TEST_F(CheckpointTest, HoldsOneSliceAtATime) {
  const harness::CountAllocations count;
  comm::run_local_ranks(1, 60, [&](comm::World& world) {
    harness::MomentumSgd optimizer;
    exec::Session session(layers(kWidth), {.recipe = layout(1, 1, 0).recipe}, world, optimizer);
    const auto& specs = session.model().spec.units;
    EXPECT_EQ(session.units().local_slices().size(), 4u);
    EXPECT_EQ(count.peak_of([&] { save(root_, {.step = 1}, session.units(), specs, world); }), 0);
    EXPECT_EQ(count.peak_of([&] { load(root_ / "step-1", session.units(), specs); }),
              specs[0].numel() * static_cast<std::int64_t>(sizeof(float)));
  });
}

}  // namespace
}  // namespace trireme::checkpoint::checkpoint_test
