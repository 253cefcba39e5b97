// Beginning with the weights of another run, under any layout; checkpoints of what trains alone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <mutex>

#include "tests/formats/scratch.h"
#include "trireme/base/error.h"
#include "trireme/checkpoint/checkpoint.h"
#include "trireme/comm/local/local_world.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/exec/session.h"
#include "trireme/formats/checkpoint_files.h"
#include "trireme/model/blocks/build.h"
#include "trireme/model/layout.h"
#include "trireme/optim/adamw.h"

namespace trireme::train::weights_test {
namespace {

using formats::refusal;
using ::testing::HasSubstr;
using Sets = std::vector<std::string>;

config::Job job_of(const Sets& sets) {
  config::Job job;
  job.model = {.family = config::Family::kLlama,
               .layers = 2,
               .hidden = 24,
               .heads = 6,
               .kv_heads = 3,
               .ffn = 25,
               .vocab = 67,
               .seq_len = 12};
  job.run.global_batch = 4;
  job.parallel.dp_shard = 1;
  for (const std::string& set : sets) config::apply_set(job, set);
  const config::Parallel& parallel = job.parallel;
  return config::resolve(job, parallel.pp * parallel.dp_shard * parallel.tp, {});
}

// Whole parameters by name, put together from all ranks.
using Parameters = std::map<std::string, std::vector<double>>;

// body(units, specs, world) on every rank of a session of the job; then what all hold.
Parameters with_session(const config::Job& job,
                        const std::function<void(exec::Units&, const std::vector<model::UnitSpec>&,
                                                 comm::World&)>& body) {
  Parameters all;
  std::mutex mutex;
  const config::Parallel& parallel = job.parallel;
  comm::run_local_ranks(parallel.pp * parallel.dp_shard * parallel.tp, 60, [&](comm::World& world) {
    optim::AdamW optimizer({});
    exec::Session session(blocks::build(job, world),
                          {.mesh = model::mesh_of(job),
                           .recipe = model::recipe_of(job),
                           .seed = static_cast<std::uint64_t>(job.run.seed)},
                          world, optimizer);
    exec::Units& units = session.units();
    const std::vector<model::UnitSpec>& specs = session.model().spec.units;
    body(units, specs, world);
    units.refresh();
    const std::lock_guard lock(mutex);
    for (const exec::StateSlice& slice : units.local_slices()) {
      if (slice.kind != "param") continue;
      const model::UnitSpec& spec = specs[slice.unit];
      const at::Tensor values = units.read(slice).to(at::kDouble).contiguous();
      const auto within =
          model::extents_within(spec, units.tp_rank(), units.tp(), slice.offset, slice.count);
      for (std::size_t p = 0; p < within.size(); ++p) {
        auto& whole = all[spec.params[p].name];
        whole.resize(static_cast<std::size_t>(spec.params[p].numel()));
        for (const model::Extent& extent : within[p])
          std::copy_n(values.data_ptr<double>() + extent.local, extent.count,
                      whole.begin() + extent.global);
      }
    }
  });
  return all;
}

class WeightsTest : public testing::Test {
 protected:
  // A checkpoint of the job's initial values.
  Path write(const std::string& name, const Sets& sets, const std::string& base = {}) {
    std::filesystem::create_directories(scratch_ / name);
    with_session(job_of(sets), [&](auto& units, const auto& specs, comm::World& world) {
      checkpoint::save(scratch_ / name, {.step = 1, .base = base}, units, specs, world);
    });
    return scratch_ / name / "step-1";
  }
  Parameters begin(const Path& weights, const Sets& sets) {
    return with_session(job_of(sets), [&](auto& units, const auto& specs, comm::World&) {
      checkpoint::load_weights(weights, units, specs);
    });
  }
  Parameters resume(const Path& directory, const Sets& sets, const Path& base = {}) {
    return with_session(job_of(sets), [&](auto& units, const auto& specs, comm::World&) {
      checkpoint::load(directory, units, specs, base);
    });
  }
  static Parameters drawn(const Sets& sets) {
    return with_session(job_of(sets), [](auto&, const auto&, comm::World&) {});
  }
  formats::Scratch scratch_;
};

TEST_F(WeightsTest, BeginUnderAnyLayout) {
  const std::vector<Sets> layouts = {{},
                                     {"parallel.tp=2"},
                                     {"parallel.tp=4", "parallel.dp_shard=2", "parallel.zero=1"},
                                     {"parallel.dp_shard=2", "parallel.zero=3"},
                                     {"parallel.pp=2", "parallel.tp=3"}};
  const Parameters expected = drawn({});
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    const Path weights = write(std::to_string(from), layouts[from]);
    for (Sets to : layouts) {
      to.insert(to.end(), {"run.seed=7", "lora.rank=2"});
      const Parameters begun = begin(weights, to), own = drawn(to);
      int adapters = 0;
      for (const auto& [name, values] : begun) {
        const bool adapter = name.find(".lora_") != std::string::npos;
        adapters += adapter;
        EXPECT_EQ(values, adapter ? own.at(name) : expected.at(name))
            << name << " from " << from << testing::PrintToString(to);
      }
      EXPECT_EQ(adapters, 28);
    }
  }
}

TEST_F(WeightsTest, AreConverted) {
  const Path weights = write("fp32", {});
  const Parameters wide = drawn({});
  const Parameters narrow = begin(weights, {"precision.compute=bf16", "lora.rank=2", "run.seed=7"});
  for (const auto& [name, values] : wide)
    for (std::size_t i = 0; i < values.size(); ++i)
      EXPECT_EQ(narrow.at(name)[i],
                static_cast<double>(at::BFloat16(static_cast<float>(values[i]))))
          << name;
  // Masters keep every bit.
  EXPECT_EQ(begin(weights, {"precision.compute=bf16", "run.seed=7"}), wide);
}

TEST_F(WeightsTest, AdaptersComeAlongIfThereAreAny) {
  const Sets lora = {"lora.rank=2", "run.seed=3"};
  EXPECT_EQ(begin(write("tuned", lora), {"lora.rank=2"}), drawn(lora));
}

// Not with those of the values that would be drawn.
TEST_F(WeightsTest, MagnitudesBeginWithNormsOfTheirRows) {
  const Parameters base = drawn({});
  for (const Sets& layout : std::vector<Sets>{
           {}, {"parallel.tp=2"}, {"parallel.tp=4", "parallel.dp_shard=2", "parallel.zero=3"}}) {
    Sets sets = {"lora.rank=2", "lora.dora=true", "run.seed=7"};
    sets.insert(sets.end(), layout.begin(), layout.end());
    const Path weights = write("base" + std::to_string(layout.size()), layout);
    const Parameters begun = begin(weights, sets), own = drawn(sets);
    int found = 0;
    for (const auto& [name, values] : begun) {
      const std::size_t at = name.find("lora_magnitude_vector.");
      if (at == name.npos) continue;
      ++found;
      const auto norms = [&](const Parameters& of) {
        const std::vector<double>& rows = of.at(name.substr(0, at) + "weight");
        std::vector<double> squares(values.size());
        for (std::size_t i = 0; i < rows.size(); ++i)
          squares[i / (rows.size() / values.size())] += rows[i] * rows[i];
        return squares;
      };
      const std::vector<double> loaded = norms(base), drawn_here = norms(own);
      for (std::size_t row = 0; row < values.size(); ++row) {
        EXPECT_NEAR(values[row], std::sqrt(loaded[row]), 1e-6 * values[row]) << name;
        EXPECT_NEAR(own.at(name)[row], std::sqrt(drawn_here[row]), 1e-6 * values[row]) << name;
      }
    }
    EXPECT_EQ(found, 14);
    // Those of a model that has them come along.
    EXPECT_EQ(begin(write("tuned" + std::to_string(layout.size()), sets),
                    {"lora.rank=2", "lora.dora=true"}),
              own);
  }
}

TEST_F(WeightsTest, ThatDoNotFitAreNamed) {
  const Path weights = write("plain", {});
  EXPECT_THAT(refusal([&] { begin(weights, {"model.layers=3"}); }),
              HasSubstr("lacks model.layers.2.input_layernorm.weight"));
  EXPECT_THAT(refusal([&] { begin(weights, {"model.layers=3"}); }), HasSubstr("and 4 more"));
  EXPECT_THAT(refusal([&] { begin(weights, {"model.ffn=31"}); }),
              HasSubstr("mlp.gate_proj.weight is [25, 24] there, this model needs [31, 24]"));
  EXPECT_THAT(refusal([&] { begin(write("parts", {"parallel.tp=2"}), {"model.vocab=68"}); }),
              HasSubstr("(part 0 of 2)"));
  EXPECT_THAT(refusal([&] { begin(write("small", {"lora.rank=2"}), {"lora.rank=3"}); }),
              HasSubstr("lora_A.weight is [2, 24] there"));
  EXPECT_THAT(refusal([&] { begin(scratch_ / "nowhere", {}); }), HasSubstr("nowhere"));
}

TEST_F(WeightsTest, WhatDoesNotTrainNeedNotBeSaved) {
  const Path weights = write("plain", {});
  const std::string base = checkpoint::identity(weights);
  const Sets lora = {"lora.rank=2", "run.seed=7"};
  for (const Sets& layout :
       {Sets{}, Sets{"parallel.tp=2"}, Sets{"parallel.dp_shard=2", "parallel.zero=3"}}) {
    Sets sets = lora;
    sets.insert(sets.end(), layout.begin(), layout.end());
    const std::string name = "tuned" + std::to_string(layout.size());
    const Path tuned = write(name, sets, base);
    const formats::Manifest manifest = formats::verify_checkpoint(tuned);
    EXPECT_EQ(manifest.base, base);
    for (const formats::ManifestUnit& unit : manifest.units)
      EXPECT_TRUE(unit.name.ends_with(".lora")) << unit.name;
    const Parameters begun = begin(weights, lora);
    EXPECT_EQ(resume(tuned, {"lora.rank=2", "run.seed=8"}, weights), begun);
    EXPECT_EQ(resume(tuned, {"lora.rank=2", "parallel.tp=3"}, weights), begun);
    EXPECT_THAT(refusal([&] { resume(tuned, lora); }),
                HasSubstr("embed, block.0, block.1, head; set model.weights"));
    EXPECT_THAT(refusal([&] { resume(tuned, lora, write("other", {"run.seed=9"})); }),
                HasSubstr("its run began with a checkpoint whose manifest has digest " + base));
    EXPECT_THAT(refusal([&] {
                  resume(tuned, {"lora.rank=2", "lora.also=head"}, weights);
                }),
                HasSubstr("has no unit head, which this job trains"));
    EXPECT_THAT(refusal([&] { resume(tuned, {}, weights); }),
                HasSubstr("is not one of the model's"));
    EXPECT_THAT(refusal([&] { begin(tuned, lora); }), HasSubstr("lacks model.embed_tokens.weight"));
  }
}

// A run that resumes from a whole checkpoint and leaves out from then on what does not train.
TEST_F(WeightsTest, WhatIsLeftOutFromNowOnIsThatOfTheBase) {
  const Path weights = write("plain", {}), other = write("other", {"run.seed=7"});
  for (const Sets& layout : std::vector<Sets>{
           {}, {"parallel.tp=2", "parallel.pp=2"}, {"parallel.dp_shard=2", "parallel.zero=3"}}) {
    Sets lora = {"lora.rank=2"};
    lora.insert(lora.end(), layout.begin(), layout.end());
    const auto check = [&](const Path& base) {
      with_session(job_of(lora), [&](auto& units, const auto& specs, comm::World&) {
        checkpoint::load_weights(weights, units, specs);
        checkpoint::check_frozen(base, units, specs);
      });
    };
    check(weights);
    EXPECT_THAT(
        refusal([&] { check(other); }),
        AllOf(HasSubstr("unit "), HasSubstr("is not that of model.weights=" + other.string() +
                                            "; name the checkpoint that this run began")));
  }
}

// It has the type of computing, which a resume may change.
TEST_F(WeightsTest, WhatIsFrozenIsConvertedOnResume) {
  const Sets frozen = {"model.frozen=block.0"};
  const Sets narrow = {"model.frozen=block.0", "precision.compute=bf16"};
  const Path directory = write("narrow", narrow);
  const Parameters stored = drawn(narrow);
  EXPECT_EQ(resume(directory, frozen), stored);
  EXPECT_EQ(resume(directory, {"model.frozen=block.0", "parallel.tp=2"}), stored);
  EXPECT_THAT(refusal([&] {
                resume(directory, {"precision.master=fp64", "precision.compute=fp64"});
              }),
              HasSubstr("this job needs fp64"));
}

}  // namespace
}  // namespace trireme::train::weights_test
