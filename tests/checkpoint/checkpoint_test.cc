// Checkpoints: any data-parallel layout reads what any other wrote, bit for bit; damage is refused.
#include "trireme/checkpoint/checkpoint.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <set>

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

using exec::BlockContext;
using harness::Layout;

constexpr std::int64_t kWidth = 37;  // odd: shards are padded

class Layer : public exec::Block {
 public:
  void bind(std::vector<at::Tensor> params) override { params_ = std::move(params); }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {at::linear(inputs[0], params_[0], params_[1]).tanh()};
  }

 private:
  std::vector<at::Tensor> params_;
};

class Loss : public exec::Block {
 public:
  void bind(std::vector<at::Tensor>) override {}
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const BlockContext&) override {
    return {inputs[0].to(at::kFloat).square().sum()};
  }
};

;

exec::Model layers(std::int64_t width) {
  exec::Model model;
  plan::Program& program = model.spec.program;
  program.name = "layers";
  program.values = {{.name = "x", .differentiable = false}};
  for (int i = 0; i < 2; ++i) {
    const std::string name = fmt::format("layer.{}", i);
    model::UnitSpec unit{.name = name,
                         .params = {{.name = name + ".weight",
                                     .shape = {width, width},
                                     .init = {model::Init::Kind::kNormal, 0.2}},
                                    {.name = name + ".bias", .shape = {width}}}};
    program.units.push_back({.name = name, .numel = unit.numel()});
    program.values.push_back({.name = name});
    program.nodes.push_back({.name = name, .reads = {i}, .writes = {i + 1}, .units = {i}});
    model.spec.units.push_back(unit);
    model.spec.node_params.push_back({{i, 0}, {i, 1}});
    model.blocks.push_back(std::make_unique<Layer>());
  }
  program.values.push_back({.name = "loss"});
  program.nodes.push_back({.name = "loss", .reads = {2}, .writes = {3}, .loss = true});
  model.spec.node_params.push_back({});
  model.blocks.push_back(std::make_unique<Loss>());
  return model;
}

Layout layout(int replicate, int shard, int zero, DType compute = DType::kF32) {
  return {.degrees = {.dp_replicate = replicate, .dp_shard = shard},
          .recipe = {.zero = zero,
                     .micro_batches = 4 / (replicate * shard),
                     .compute = compute,
                     .optimizer_states = 1}};
}

class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() / fmt::format("trireme_ckpt_{}", ::getpid());
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  // Steps [first, last) under a layout, loading before when first > 0 and saving after; the digest is the
  // losses' and, through them, every parameter's.
  std::vector<double> run(const Layout& layout, std::int64_t first, std::int64_t last) {
    std::vector<double> losses;
    const mesh::Mesh mesh(layout.degrees);
    comm::run_local_ranks(mesh.world(), 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      exec::Session session(layers(width_), {.mesh = mesh, .recipe = layout.recipe, .seed = 3},
                            world, optimizer);
      if (first > 0) {
        const auto manifest = load(root_ / fmt::format("step-{}", first), session.units(),
                                   session.model().spec.units);
        EXPECT_EQ(manifest.step, first);
        session.units().refresh();
      }
      for (std::int64_t step = first; step < last; ++step) {
        const exec::StepResult result = session.step(
            {.step = step,
             .loss_scale = 0.1,
             .update = {.lr = 0.05, .step = step + 1},
             .load = [&](int mb) {
               const BlockContext key{
                   .seed = 9,
                   .step = step,
                   .micro_batch = plan::micro_batch_id(mesh, layout.recipe, world.rank(), mb)};
               at::Tensor x = at::empty({2, width_}).normal_(0, 1, key.generator(0));
               return std::vector<at::Tensor>{x.to(comm::scalar_type(layout.recipe.compute))};
             }});
        if (world.rank() == 0) losses.push_back(result.loss);
      }
      save(root_, {.step = last, .consumed_samples = last * 8, .job = "job"}, session.units(),
           session.model().spec.units, world);
    });
    return losses;
  }

  Path root_;
  std::int64_t width_ = kWidth;
};

class ResidualTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    width_ = 256;  // units of 65,792 parameters, which are coded
  }
  static Layout coded(Layout one, int senders, std::optional<DType> residual) {
    one.recipe.coded = {.codec = codec::parse("q4"), .senders = senders, .residual = residual};
    return one;
  }
  at::Tensor total(std::int64_t step, int senders) {
    at::Tensor sum = at::zeros({width_ * (width_ + 1)}, at::kDouble);
    const Layout one = coded(layout(1, 1, 0), senders, DType::kF32);
    comm::run_local_ranks(1, 60, [&](comm::World& world) {
      harness::MomentumSgd optimizer;
      exec::Session session(layers(width_), {.mesh = mesh::Mesh(one.degrees), .recipe = one.recipe},
                            world, optimizer);
      load(root_ / fmt::format("step-{}", step), session.units(), session.model().spec.units);
      int found = 0;
      for (const exec::StateSlice& slice : session.units().owned_slices())
        if (slice.unit == 0 && slice.sender >= 0) {
          sum.add_(session.units().read(slice).to(at::kDouble));
          ++found;
        }
      EXPECT_EQ(found, senders);
    });
    return sum;
  }
};

TEST_F(ResidualTest, AResumedRunHasTheBitsOfOneThatWasNotStopped) {
  for (const DType residual : {DType::kF32, DType::kBF16}) {
    const auto with = [&](const Layout& one) { return coded(one, 2, residual); };
    const std::vector<double> straight = run(with(layout(1, 1, 0)), 0, 6);
    const std::vector<Layout> layouts = {with(layout(1, 1, 0)), with(layout(2, 1, 0)),
                                         with(layout(1, 2, 1))};
    for (const Layout& before : layouts)
      for (const Layout& after : layouts) {
        std::vector<double> losses = run(before, 0, 3);
        const std::vector<double> rest = run(after, 3, 6);
        losses.insert(losses.end(), rest.begin(), rest.end());
        EXPECT_EQ(losses, straight) << before.name() << " -> " << after.name();
      }
  }
}

TEST_F(ResidualTest, OtherSendersKeepTheTotal) {
  run(coded(layout(1, 2, 1), 2, DType::kF32), 0, 3);
  const at::Tensor two = total(3, 2);
  EXPECT_GT(two.norm().item<double>(), 0);
  for (const int senders : {1, 4})
    EXPECT_LT((total(3, senders) - two).norm().item<double>(), 1e-6 * two.norm().item<double>())
        << senders;
}

TEST_F(ResidualTest, ACheckpointWithoutResidualsBeginsWithZeros) {
  run(coded(layout(1, 1, 0), 2, std::nullopt), 0, 3);
  EXPECT_EQ(total(3, 2).norm().item<double>(), 0);
}

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
                                    const std::vector<int>& ranks, int) override {
    return world_.make_group(name, ranks);
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
