// Loss and gradient norms of whole vision-language models in fp64 against vision_language_fixtures.py, which computes
// them from the papers in NumPy with the same weights and inputs.
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/bound_model.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/model/blocks/build.h"

namespace trireme::blocks::vision_language_fixtures_test {
namespace {

using Tensors = std::vector<at::Tensor>;

// Element i of a parameter or input: a hash of its name and i, within scale * [-0.5, 0.5). Gains have 1 more.
at::Tensor made(const std::string& name, at::IntArrayRef shape, double scale = 0.8) {
  std::uint32_t seed = 0;
  for (const char byte : name) seed = seed * 31 + static_cast<unsigned char>(byte);
  at::Tensor values = at::empty(shape, at::kDouble);
  const double more = shape.size() == 1 && name.ends_with("weight") ? 1 : 0;
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    std::uint32_t x = seed + static_cast<std::uint32_t>(i + 1) * 2654435761U;
    x = (x ^ (x >> 16)) * 2246822519U;
    x = (x ^ (x >> 13)) * 3266489917U;
    x ^= x >> 16;
    values.data_ptr<double>()[i] = more + scale * (x / 4294967296.0 - 0.5);
  }
  return values;
}

at::Tensor rows_of(const std::vector<std::int64_t>& values, std::int64_t rows = 2) {
  return torch::tensor(values, at::kLong).view({rows, -1});
}

struct Fixture {
  std::string name;
  std::vector<std::string> sets;
  Tensors inputs;  // as the program lists them
  double loss;
  std::map<std::string, double> norms;  // of the gradients of each unit
};

const std::vector<std::int64_t> kTokens = {256, 256, 256, 256, 40,  41, 90,  7,
                                           13,  256, 256, 256, 256, 99, 100, 3};
const std::vector<std::int64_t> kTargets = {-100, -100, -100, -100, -100, 90,  7, 257,
                                            -100, -100, -100, -100, -100, 100, 3, 257};
const std::vector<std::int64_t> kStanding = {0,  1, 2, 3, -1, -1, -1, -1,
                                             -1, 4, 5, 6, 7,  -1, -1, -1};

Fixture q_former() {
  return {
      .name = "Q-Former",
      .sets = {"vision.image=12", "vision.patch=4", "vision.hidden=12", "vision.heads=2",
               "vision.layers=1", "vision.ffn=20", "projector.kind=qformer", "projector.hidden=8",
               "projector.queries=4", "projector.layers=3", "projector.heads=2", "model.hidden=12",
               "model.heads=2", "model.layers=1", "model.ffn=20", "vlm.max_tiles=0"},
      .inputs = {rows_of(kTokens), rows_of(kTargets), rows_of(kStanding),
                 made("pixels", {2, 3, 12, 12}, 2)},
      .loss = 39.829686143908425,
      .norms = {{"vision.embed", 0.907971311696886},
                {"vision.block.0", 1.4534214800777046},
                {"vision.norm", 0.7165462563614646},
                {"projector", 14.50415688507707},
                {"embed", 7.693687025905696},
                {"block.0", 18.451754372098897},
                {"head", 10.648717796637708}}};
}

Fixture flamingo() {
  return {
      .name = "Perceiver and gated cross-attention",
      .sets = {"vision.image=12", "vision.patch=4", "vision.hidden=12", "vision.heads=2",
               "vision.layers=1", "vision.ffn=20", "projector.kind=perceiver",
               "projector.queries=3", "projector.layers=2", "projector.heads=1", "model.hidden=10",
               "model.heads=1", "model.layers=2", "model.ffn=16", "vlm.max_tiles=0",
               "vlm.cross=[1, 2]"},
      .inputs = {rows_of({65, 256, 40, 41, 256, 90, 91, 7, 13, 14, 256, 60, 61, 99, 100, 3}),
                 rows_of(kTargets), rows_of({-1, 0, 0, 0, 3, 3, 3, 3, -1, -1, 6, 6, 6, 6, 6, 6}),
                 made("pixels", {3, 3, 12, 12}, 2)},
      .loss = 36.14920540306102,
      .norms = {{"vision.embed", 3.927417042232874},
                {"vision.block.0", 8.599938289782106},
                {"vision.norm", 3.8705145629179873},
                {"projector", 17.268785081704294},
                {"embed", 4.152336438547931},
                {"cross.0", 11.994040390725559},
                {"block.0", 6.406585600093243},
                {"cross.1", 9.534738049607624},
                {"block.1", 5.5433174760176955},
                {"head", 9.265704992599364}}};
}

Fixture qwen3_vl() {
  const std::vector<std::int64_t> places = {0, 0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 2, 2, 2, 3,
                                            3, 3, 4, 4, 4, 5, 5, 5, 0, 0, 0, 1, 1, 1, 1, 1,
                                            2, 1, 2, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5};
  return {.name = "Qwen3-VL",
          .sets = {"vision.image=8",
                   "vision.patch=2",
                   "vision.frames=2",
                   "vision.tubelet=2",
                   "vision.position_grid=3",
                   "vision.positions=learned_rotary",
                   "vision.activation=gelu_tanh",
                   "vision.hidden=16",
                   "vision.heads=2",
                   "vision.layers=2",
                   "vision.ffn=24",
                   "projector.kind=merger",
                   "vlm.deepstack=0",
                   "vlm.mrope=2,1,1 interleaved",
                   "model.hidden=12",
                   "model.heads=4",
                   "model.kv_heads=2",
                   "model.head_dim=8",
                   "model.qk_norm=true",
                   "model.layers=2",
                   "model.ffn=20",
                   "vlm.max_tiles=0"},
          .inputs = {rows_of(kTokens), rows_of(kTargets), rows_of(kStanding),
                     made("pixels", {2, 3, 8, 8}, 2), rows_of(places).view({2, 8, 3})},
          .loss = 38.75666001476312,
          .norms = {{"vision.embed", 5.177016577552211},
                    {"vision.block.0", 6.952220938791951},
                    {"deepstack.0", 2.6731407602681734},
                    {"vision.block.1", 6.007031822416773},
                    {"projector", 11.128125330777834},
                    {"embed", 13.8073028096248},
                    {"block.0", 24.119914099035192},
                    {"block.1", 11.183946771172208},
                    {"head", 11.388055702322307}}};
}

config::Job job_of(const Fixture& fixture) {
  config::Job job;
  std::vector<std::string> sets = {
      "model.family=vlm",    "data.source=scenes", "vlm.layer=-1",     "vision.norm_eps=1e-6",
      "model.norm_eps=1e-5", "model.seq_len=8",    "model.tied=false", "precision.compute=fp64",
      "run.micro_batch=2",   "run.global_batch=2"};
  sets.insert(sets.end(), fixture.sets.begin(), fixture.sets.end());
  for (const std::string& set : sets) config::apply_set(job, set);
  return config::resolve(job, 1, {});
}

at::Tensor loss_of(harness::BoundModel& model, const Tensors& inputs) {
  const plan::Program& program = model.model().spec.program;
  Tensors values(program.values.size());
  std::ranges::copy(inputs, values.begin());
  at::Tensor last;
  for (std::size_t n = 0; n < program.nodes.size(); ++n) {
    Tensors reads;
    for (const plan::ValueId id : program.nodes[n].reads) reads.push_back(values[id]);
    last = model.block(n).forward(reads, {})[0];
    values[program.nodes[n].writes[0]] = last;
  }
  return last;
}

// BoundModel lists parameters unit by unit.
std::map<std::string, double> gradient_norms(const harness::BoundModel& model) {
  std::map<std::string, double> norms;
  auto param = model.params().begin();
  for (const model::UnitSpec& unit : model.model().spec.units) {
    double squares = 0;
    for (std::size_t i = 0; i < unit.params.size(); ++i, ++param) {
      EXPECT_TRUE(param->second.grad().defined()) << param->first;
      squares += param->second.grad().square().sum().item<double>();
    }
    norms[unit.name] = std::sqrt(squares);
  }
  return norms;
}

class VisionLanguage : public testing::TestWithParam<Fixture> {};

TEST_P(VisionLanguage, HasTheLossAndGradientsOfItsFixture) {
  const Fixture& fixture = GetParam();
  harness::BoundModel model(build(job_of(fixture)), at::kDouble);
  {
    const at::NoGradGuard no_grad;
    for (const auto& [name, param] : model.params())
      at::Tensor(param).copy_(made(name, param.sizes()));
  }
  const at::Tensor loss = loss_of(model, fixture.inputs);
  EXPECT_NEAR(loss.item<double>(), fixture.loss, 1e-12 * fixture.loss);
  loss.backward();
  const std::map<std::string, double> norms = gradient_norms(model);
  EXPECT_EQ(norms.size(), fixture.norms.size());
  for (const auto& [unit, wanted] : fixture.norms) {
    ASSERT_TRUE(norms.contains(unit)) << unit;
    EXPECT_NEAR(norms.at(unit), wanted, 1e-12 * wanted) << unit;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, VisionLanguage,
                         testing::Values(q_former(), flamingo(), qwen3_vl()),
                         [](const testing::TestParamInfo<Fixture>& of) {
                           std::string name;
                           for (const char c : of.param.name)
                             if (std::isalnum(static_cast<unsigned char>(c)) != 0) name += c;
                           return name;
                         });

}  // namespace
}  // namespace trireme::blocks::vision_language_fixtures_test
