// LoRA jobs whose frozen matrices are int8 or nf4 (lora.base): the numbers of the same job with the values that these
// forms have, under every layout.
#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/harness/small_jobs.h"
#include "trireme/base/error.h"
#include "trireme/comm/tensor_buffer.h"
#include "trireme/exec/units/stored_rows.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/families/describe.h"
#include "trireme/ops/adapters/stored_weight.h"

namespace trireme::train::stored_base_test {
namespace {

using harness::JobTrace;
using harness::run_job;
using harness::Sets;
using harness::operator+;

constexpr int kSteps = 3;

// Weights are drawn here; a job that the program runs reads them from model.weights.
const Sets kSmall = {"model.hidden=64", "model.ffn=128", "model.tied=false", "lora.rank=3",
                     "lora.dropout=0.1"};
const Sets kBase = {"checkpoint.trainable_only=true", "model.weights=weights"};
const Sets kGpt = {"model.family=gpt", "model.kv_heads=4", "model.dropout=0.1"};
const Sets kNeox = {"model.family=neox", "model.kv_heads=4"};

config::Job job_of(const std::string& form, DType compute, const Sets& sets = {}) {
  const Sets base = form == "full" ? Sets{} : kBase + Sets{"lora.base=" + form};
  return harness::small_llama(compute, kSmall + base + sets);
}

// A block of a job without lora.base, whose frozen matrices begin with the values of their stored forms.
class Dequantised final : public exec::Block {
 public:
  Dequantised(std::unique_ptr<exec::Block> inner, std::vector<const model::ParamSpec*> params,
              const config::Job& job)
      : inner_(std::move(inner)),
        params_(std::move(params)),
        seed_(static_cast<std::uint64_t>(job.run.seed)),
        compute_(comm::scalar_type(job.precision.compute)) {}
  const exec::Block& innermost() const override { return inner_->innermost(); }
  void bind(std::vector<at::Tensor> params) override { inner_->bind(std::move(params)); }
  at::Tensor initial_value(std::size_t index) const override {
    const model::ParamSpec& param = *params_[index];
    if (!param.matrix) return inner_->initial_value(index);
    return ops::stored_values(exec::initial_rows(param, seed_).view(param.shape), compute_);
  }
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    return inner_->forward(inputs, context);
  }

 private:
  std::unique_ptr<exec::Block> inner_;
  std::vector<const model::ParamSpec*> params_;
  std::uint64_t seed_;
  at::ScalarType compute_;  // masters round halves in another way than files are read
};

JobTrace run_dequantised(const std::string& form, DType compute, const Sets& sets) {
  const model::ModelSpec stored = model::describe(harness::resolved(job_of(form, compute, sets)));
  return run_job(
      job_of("full", compute, sets), kSteps, [&](const config::Job& job, comm::World& world) {
        exec::Model model = blocks::build(job, world);
        for (std::size_t node = 0; node < model.blocks.size(); ++node) {
          std::vector<const model::ParamSpec*> params;
          for (const model::ParamRef& ref : stored.node_params[node])
            params.push_back(&stored.units[ref.unit].params[ref.param]);
          model.blocks[node] =
              std::make_unique<Dequantised>(std::move(model.blocks[node]), std::move(params), job);
        }
        return model;
      });
}

std::map<std::string, std::vector<double>> adapters(const JobTrace& trace) {
  std::map<std::string, std::vector<double>> found;
  for (const auto& [name, values] : trace.states)
    if (name.find("lora_") != std::string::npos) found[name] = values;
  return found;
}

// Gradients of adapters, and so their updates, bit by bit.
TEST(StoredBase, TrainsAsTheJobWithItsValues) {
  for (const Sets& family : {Sets{}, kGpt, kNeox, Sets{"lora.targets=attention"}})
    for (const char* form : {"int8", "nf4"})
      for (const DType compute : {DType::kF32, DType::kBF16}) {
        const JobTrace own = run_job(job_of(form, compute, family), kSteps);
        const JobTrace other = run_dequantised(form, compute, family);
        const std::string where = form + testing::PrintToString(family);
        EXPECT_EQ(own.losses, other.losses) << where;
        EXPECT_EQ(own.grad_norms, other.grad_norms) << where;
        EXPECT_GT(adapters(own).size(), 8u);
        EXPECT_EQ(adapters(own), adapters(other)) << where;
        EXPECT_NE(own.losses, run_job(job_of("full", compute, family), kSteps).losses) << where;
      }
}

TEST(StoredBase, EveryLayoutHasTheBitsOfOneRank) {
  for (const char* form : {"int8", "nf4"}) {
    const JobTrace one = run_job(job_of(form, DType::kF32), kSteps);
    for (const Sets& layout :
         std::vector<Sets>{{"parallel.dp_shard=2", "parallel.zero=1"},
                           {"parallel.dp_shard=4", "parallel.zero=2", "recompute.policy=full"},
                           {"parallel.dp_shard=2", "parallel.zero=3"},
                           {"parallel.pp=2", "parallel.schedule=zb_h1"},
                           {"parallel.pp=2", "parallel.dp_shard=2", "parallel.zero=3"},
                           {"recompute.policy=selective", "recompute.parts=norms,attention,mlp"},
                           {"offload.params=host", "offload.optimizer=host"}}) {
      const JobTrace other = run_job(job_of(form, DType::kF32, layout), kSteps);
      const std::string where = form + testing::PrintToString(layout);
      EXPECT_EQ(other.losses, one.losses) << where;
      EXPECT_EQ(other.grad_norms, one.grad_norms) << where;
      EXPECT_EQ(other.states, one.states) << where;
    }
  }
}

TEST(StoredBase, ContextRanksTrainTheSame) {
  for (const char* form : {"int8", "nf4"}) {
    const JobTrace one = run_job(job_of(form, DType::kF64), kSteps);
    const JobTrace two = run_job(job_of(form, DType::kF64, {"parallel.cp=2"}), kSteps);
    EXPECT_LT(distance(two, one), 1e-12) << form;
  }
}

// Units of bytes: nf4 has 36 for 64 values, int8 4 more than a row's values. A block that trains has none.
TEST(StoredBase, UnitsAreAsSmallAsTheirForm) {
  const auto bytes = [](const char* form, const Sets& sets) {
    std::int64_t sum = 0;
    const model::ModelSpec spec =
        model::describe(harness::resolved(job_of(form, DType::kBF16, sets)));
    for (const plan::Unit& unit : spec.program.units)
      if (unit.type == DType::kU8) sum += unit.numel;
    return sum;
  };
  const std::int64_t rows = 64 + 2 * 32 + 64 + 2 * 128;  // of 64 values; down has 64 of 128
  EXPECT_EQ(bytes("nf4", {}), 2 * (rows * 64 + 64 * 128) * 36 / 64);
  EXPECT_EQ(bytes("int8", {}), 2 * (rows * 68 + 64 * 132));
  EXPECT_EQ(bytes("int8", {"lora.also=block.1"}), rows * 68 + 64 * 132);
}

TEST(StoredBase, RowsOfOtherLengthsAreRefused) {
  try {
    model::describe(harness::resolved(job_of("nf4", DType::kF32, {"model.ffn=80"})));
    FAIL() << "80 is no multiple of 64";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rows of 80 values"), std::string::npos);
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
  }
}

TEST(StoredBase, ValuesThatAreNotFiniteAreRefused) {
  const model::ModelSpec spec = model::describe(harness::resolved(job_of("nf4", DType::kF32)));
  for (const model::UnitSpec& unit : spec.units)
    for (const model::ParamSpec& param : unit.params) {
      if (!param.matrix) continue;
      at::Tensor values = at::zeros({param.matrix->numel()});
      values[5] = std::numeric_limits<float>::infinity();
      EXPECT_THROW(exec::stored_rows(param, values), Error) << param.name;
    }
}

}  // namespace
}  // namespace trireme::train::stored_base_test
