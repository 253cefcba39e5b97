// Every precision policy under every layout, and from checkpoints.
#include <gtest/gtest.h>

#include <filesystem>
#include <mutex>

#include "tests/formats/scratch.h"
#include "tests/harness/jobs.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/loaders/tokens/random_tokens.h"
#include "trireme/train/job_session.h"

namespace trireme::train::precision_test {
namespace {

using harness::distance;
using harness::JobTrace;
using Sets = std::vector<std::string>;

constexpr int kSteps = 4;

config::Job job_of(const Sets& policy, const Sets& layout = {}) {
  config::Job job = config::load_job(Path(TRIREME_SOURCE_DIR) / "recipes" / "gpt_tiny.yaml");
  job.run.global_batch = 8;
  for (const Sets* sets : {&policy, &layout})
    for (const std::string& set : *sets) config::apply_set(job, set);
  return job;
}

JobTrace run(const Sets& policy, const Sets& layout = {}) {
  return harness::run_job(job_of(policy, layout), kSteps);
}

void expect_equal(const JobTrace& a, const JobTrace& b, const std::string& what) {
  EXPECT_EQ(a.losses, b.losses) << what;
  EXPECT_EQ(a.grad_norms, b.grad_norms) << what;
  EXPECT_EQ(a.states, b.states) << what;
}

std::string text(const Sets& sets) {
  std::string all;
  for (const std::string& set : sets) all += set + " ";
  return all;
}

const Sets kFp16 = {"precision.compute=fp16"};
const Sets kPure = {"precision.compute=bf16", "precision.master=bf16"};
const Sets kInt8 = {"precision.compute=bf16", "optim.states=int8"};
const Sets kPureInt8 = {"precision.compute=bf16", "precision.master=bf16", "optim.states=int8"};
const Sets kTyped = {"precision.compute=bf16", "precision.nodes=block.*=fp32,block.0=bf16"};

const Sets kLayouts[] = {{"parallel.dp_replicate=2"},
                         {"parallel.dp_shard=2", "parallel.zero=1"},
                         {"parallel.dp_shard=2", "parallel.zero=2"},
                         {"parallel.dp_shard=2", "parallel.zero=3"},
                         {"parallel.dp_shard=2", "parallel.dp_replicate=2", "parallel.zero=3"},
                         {"parallel.dp_shard=4", "parallel.zero=2", "recompute.policy=full"}};

TEST(Precision, CanonicalPoliciesGiveTheSameBitsUnderEveryLayout) {
  for (const Sets& policy : {kFp16, kPure, kInt8, kPureInt8, kTyped}) {
    const JobTrace reference = run(policy, {"parallel.dp_shard=1"});
    for (const Sets& layout : kLayouts)
      expect_equal(run(policy, layout), reference, text(policy) + text(layout));
  }
}

TEST(Precision, EveryPolicyTrainsLikeFp32) {
  // Tokens are drawn evenly: what large weights have to learn is to expect none more than others.
  constexpr int kLearned = 12;
  const auto trained = [](const Sets& policy) {
    return harness::run_job(
        job_of(policy, {"model.init_std=0.1", "optim.lr=5e-3", "optim.warmup_steps=0"}), kLearned);
  };
  const JobTrace exact = trained({"precision.compute=fp32"});
  for (Sets policy :
       {kFp16, kPure, kInt8, kPureInt8, kTyped,
        Sets{"precision.compute=bf16", "precision.numerics=fast", "precision.grads=bf16"},
        Sets{"precision.compute=bf16", "precision.numerics=fast", "precision.reduce=bf16"},
        Sets{"precision.compute=fp16", "precision.loss_scale=4096"}}) {
    const JobTrace trace = trained(policy);
    for (std::size_t step = 0; step < kLearned; ++step)
      EXPECT_NEAR(trace.losses[step], exact.losses[step], 0.01) << text(policy);
    EXPECT_LT(trace.losses.back(), trace.losses.front() - 0.2) << text(policy);
    EXPECT_NE(trace.losses, exact.losses) << text(policy);
  }
}

// What is rounded on its way stays near what is not, on every row, and is rounded.
TEST(Precision, NarrowGradientsStayNearWideOnes) {
  const Sets wide = {"precision.compute=bf16", "precision.numerics=fast"};
  for (const char* key : {"precision.grads=bf16", "precision.reduce=bf16"}) {
    Sets narrow = wide;
    narrow.emplace_back(key);
    for (const Sets& layout : kLayouts) {
      const JobTrace a = run(wide, layout), b = run(narrow, layout);
      EXPECT_NE(a.grad_norms, b.grad_norms) << key << text(layout);
      for (std::size_t step = 0; step < a.grad_norms.size(); ++step)
        EXPECT_NEAR(b.grad_norms[step] / a.grad_norms[step], 1, 0.02) << key << text(layout);
      expect_equal(b, run(narrow, layout), "again");
    }
  }
}

TEST(Precision, TensorRanksStayTogether) {
  for (const Sets& policy : {kFp16, kPure, kTyped})
    for (const Sets& layout : {Sets{"parallel.tp=2"},
                               {"parallel.tp=2", "parallel.dp_shard=2", "parallel.zero=3"},
                               {"parallel.tp=3"}}) {
      const JobTrace one = run(policy), several = run(policy, layout);
      EXPECT_EQ(several.replicas_apart, 0) << text(policy) << text(layout);
      for (int step = 0; step < kSteps; ++step)
        EXPECT_NEAR(several.losses[step], one.losses[step], 0.02);
    }
}

TEST(Precision, PipelinesConvertAtTheirBorders) {
  for (const Sets& policy : {kFp16, kPure, kInt8, kTyped}) {
    const JobTrace one = run(policy, {"model.tied=false"});
    for (const Sets& layout :
         {Sets{"parallel.pp=2"}, {"parallel.pp=2", "parallel.schedule=zb_h1"}}) {
      Sets untied = layout;
      untied.emplace_back("model.tied=false");
      expect_equal(run(policy, untied), one, text(policy) + text(layout));
    }
  }
}

// Each key alone makes a difference.
TEST(Precision, KeysCount) {
  const JobTrace plain = run(kPure);
  Sets seeded = kPure;
  seeded.emplace_back("precision.nodes=head=bf16");  // the type it has
  expect_equal(run(seeded), plain, "head=bf16");
  EXPECT_NE(run({"precision.compute=bf16", "precision.nodes=block.0=fp32"}).losses,
            run({"precision.compute=bf16"}).losses);
}

TEST(Precision, NodesAreRefusedWithReason) {
  const auto refused = [](const std::string& nodes, const Sets& more = {}) {
    Sets sets = {"precision.compute=bf16", "precision.nodes=" + nodes};
    sets.insert(sets.end(), more.begin(), more.end());
    try {
      run(sets);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_THAT(refused("head=fp32"),
              testing::HasSubstr("unit embed is used by embed in bf16 and by head in fp32"));
  EXPECT_EQ(refused("head=fp32", {"model.tied=false"}), "nothing");
  EXPECT_EQ(refused("head=fp32,embed=fp32"), "nothing");
  EXPECT_THAT(refused("tail=fp32"), testing::HasSubstr("tail fits no node of gpt"));
  EXPECT_THAT(refused("head"), testing::HasSubstr("\"head\" is not a rule; needs NODE=TYPE"));
  EXPECT_THAT(refused("head=fp16"),
              testing::HasSubstr("with types fp32, bf16 for precision.compute"));
}

using States = std::map<std::string, std::vector<double>>;

// What a rank holds, by unit, kind and place.
States states_of(exec::Session& session) {
  States states;
  for (const exec::StateSlice& slice : session.units().local_slices()) {
    const at::Tensor values = session.units().read(slice).to(at::kDouble).contiguous();
    auto& all = states[fmt::format("{} {}", slice.unit, slice.kind)];
    all.resize(std::max(all.size(), static_cast<std::size_t>(slice.offset + slice.count)));
    std::copy_n(values.data_ptr<double>(), slice.count, all.begin() + slice.offset);
  }
  return states;
}

void train_some(const config::Job& job, JobSession& session, int first, int last) {
  for (int step = first; step < last; ++step)
    session.train(step, false, [&](std::int64_t sample) {
      return loaders::random_tokens(sample, job.run.micro_batch, job.model.seq_len, job.model.vocab,
                                    false);
    });
}

// Saved on four shards, loaded on one, and the run goes on with the same bits.
TEST(Precision, CheckpointsContinueUnderAnotherLayout) {
  for (const Sets& policy : {kFp16, kPure, kInt8, kPureInt8, kTyped}) {
    SCOPED_TRACE(text(policy));
    formats::Scratch scratch;
    const auto resolved = [&](int shards, int replicas) {
      return config::resolve(
          job_of(policy, {fmt::format("parallel.dp_shard={}", shards),
                          fmt::format("parallel.dp_replicate={}", replicas), "parallel.zero=3"}),
          shards * replicas, {.vocab = 256});
    };
    const config::Job four = resolved(2, 2), one = resolved(1, 1), replicas = resolved(1, 2);
    comm::run_local_ranks(4, 120, [&](comm::World& world) {
      JobSession session(four, world);
      train_some(four, session, 0, 2);
      checkpoint::save(scratch.path(), {.step = 2, .train_state = print(session.state())},
                       session.session().units(), session.session().model().spec.units, world);
    });
    States straight;
    comm::run_local_ranks(1, 120, [&](comm::World& world) {
      JobSession session(one, world);
      train_some(one, session, 0, 4);
      straight = states_of(session.session());
    });
    for (const config::Job* job : {&one, &replicas})
      comm::run_local_ranks(job == &one ? 1 : 2, 120, [&](comm::World& world) {
        JobSession session(*job, world);
        const formats::Manifest manifest =
            checkpoint::load(scratch.path() / "step-2", session.session().units(),
                             session.session().model().spec.units);
        session.session().units().refresh();
        session.restore(parse_train_state(manifest.train_state, 2, "manifest"));
        train_some(*job, session, 2, 4);
        EXPECT_EQ(states_of(session.session()), straight);
        // Rows without shards save shares of replicas.
        std::filesystem::create_directories(scratch.path() / "again");
        checkpoint::save(scratch.path() / "again", {.step = 4}, session.session().units(),
                         session.session().model().spec.units, world);
      });
  }
}

TEST(Precision, AnotherKindOfStatesIsRefused) {
  formats::Scratch scratch;
  const auto with = [&](const Sets& policy, const auto& use) {
    const config::Job job = config::resolve(job_of(policy), 1, {.vocab = 256});
    comm::run_local_ranks(1, 120, [&](comm::World& world) {
      JobSession session(job, world);
      use(session, world);
    });
  };
  with(kInt8, [&](JobSession& session, comm::World& world) {
    checkpoint::save(scratch.path(), {.step = 1}, session.session().units(),
                     session.session().model().spec.units, world);
  });
  try {
    with({"precision.compute=bf16"}, [&](JobSession& session, comm::World&) {
      checkpoint::load(scratch.path() / "step-1", session.session().units(),
                       session.session().model().spec.units);
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kData);
    EXPECT_THAT(std::string(error.what()),
                testing::HasSubstr("resume with the same precision and optim.states"));
  }
}

}  // namespace
}  // namespace trireme::train::precision_test
