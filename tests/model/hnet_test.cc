// H-Nets as data: sizes of the published configurations, units, values and nodes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "trireme/config/resolve/resolve.h"
#include "trireme/families/hnet/model.h"
#include "trireme/model/families/describe.h"

namespace trireme::model::hnet_test {
namespace {

config::Job hnet_job(config::Hnet hnet, std::int64_t seq_len = 64) {
  config::Job job;
  job.model.family = config::Family::kHnet;
  job.model.seq_len = seq_len;
  job.hnet = std::move(hnet);
  return config::resolve(job, 1, {.vocab = 256});
}

config::Hnet one_stage(const std::string& layout, const std::string& hidden,
                       const std::string& ffn) {
  return {.layout = layout, .hidden = hidden, .heads = "16,16", .ffn = ffn, .ratio = "6"};
}

config::Hnet two_stages(const std::string& layout, const std::string& hidden,
                        const std::string& ffn) {
  return {.layout = layout, .hidden = hidden, .heads = "16,16,16", .ffn = ffn, .ratio = "3,3"};
}

TEST(Hnet, ParameterCountsOfThePublishedModels) {
  const auto parameters = [](const config::Hnet& hnet) {
    return describe(hnet_job(hnet)).parameters();
  };
  EXPECT_EQ(parameters(one_stage("m4,[T22],m4", "1024,1536", "0,4096")), 679'405'312);
  EXPECT_EQ(parameters(one_stage("m4,[T24],m4", "1024,2048", "0,5504")), 1'270'833'920);
  EXPECT_EQ(parameters(two_stages("m4,[T1m4,[T26],m4T1],m4", "1024,1024,1536", "0,2816,4096")),
            874'315'264);
  EXPECT_EQ(parameters(two_stages("m4,[T1m4,[T27],m4T1],m4", "1024,1536,2048", "0,4096,5504")),
            1'603'492'224);
  EXPECT_EQ(parameters({}), 2'210'560);
}

TEST(Hnet, AMixerHasThePublishedParameters) {
  const ModelSpec spec = describe(hnet_job(one_stage("m1,[T1],m1", "1024,1024", "0,4096")));
  std::int64_t count = 0;
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      if (param.name.starts_with("backbone.encoder.layers.0.mixer.")) count += param.numel();
  EXPECT_EQ(count, 6'600'032);
}

std::map<std::string, ParamSpec> by_name(const ModelSpec& spec) {
  std::map<std::string, ParamSpec> params;
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params) params[param.name] = param;
  return params;
}

// The multiplier of the innermost stage that holds a parameter: of "main_network" beside "layers" or "rmsnorm" the last
// one names the innermost stage's blocks.
double own_rate(std::string_view name) {
  constexpr std::string_view kInside = "main_network.";
  if (name.starts_with("backbone.main_network.main_network.")) return 0.71;
  return name.starts_with("backbone." + std::string(kInside)) ? 1.52 : 2.63;
}

TEST(Hnet, ParametersBeginAsThePaperSays) {
  config::Hnet hnet = two_stages("m1,[T1,[T2],t1],m1", "64,64,96", "0,128,256");
  hnet.heads = "4,4,4";
  hnet.lr = "2.63,1.52,0.71";
  const ModelSpec spec = describe(hnet_job(hnet));
  const auto params = by_name(spec);
  const ParamSpec& query = params.at("backbone.main_network.routing_module.q_proj_layer.weight");
  EXPECT_EQ(query.init.kind, Init::Kind::kIdentity);
  EXPECT_EQ(params.at("backbone.residual_proj.weight").init.kind, Init::Kind::kZeros);
  EXPECT_EQ(params.at("embeddings.weight").init.std, 1);
  // Two writes outside, three in the stage in the middle, four in the innermost.
  const auto std_of = [&](const std::string& name) { return params.at(name).init.std; };
  EXPECT_DOUBLE_EQ(std_of("backbone.encoder.layers.0.mixer.out_proj.weight"), 0.02 / std::sqrt(2));
  EXPECT_DOUBLE_EQ(std_of("backbone.main_network.decoder.layers.0.mixer.out_proj.weight"),
                   0.02 / std::sqrt(5));
  EXPECT_DOUBLE_EQ(
      std_of("backbone.main_network.main_network.main_network.layers.1.mlp.fc2.weight"),
      0.02 / std::sqrt(9));
  EXPECT_EQ(params.at("backbone.main_network.main_network.pad_dimension").shape,
            std::vector<std::int64_t>{32});
  EXPECT_EQ(params.count("backbone.main_network.pad_dimension"), 0U);  // both are 64 wide
  for (const UnitSpec& unit : spec.units)
    for (const ParamSpec& param : unit.params)
      EXPECT_EQ(param.lr, own_rate(param.name)) << param.name;
  EXPECT_EQ(spec.metrics, (std::vector<std::string>{"nats", "chunk_ratio", "chunk_ratio_1"}));
}

TEST(Hnet, OnlyChunksVaryAndRoutersAreExact) {
  config::Job bf16 = hnet_job({});
  bf16.precision.compute = DType::kBF16;
  const ModelSpec spec = describe(bf16);
  for (const plan::Value& value : spec.program.values) {
    const bool inner =
        value.name.starts_with("s1.") || value.name == "chunks.0" || value.name == "starts.1";
    EXPECT_EQ(value.varies, inner) << value.name;
    const bool stream =
        value.name == "bytes" || value.name == "chunks.0" || value.name.ends_with(".x");
    EXPECT_EQ(value.type, stream ? std::optional(DType::kF32) : std::nullopt) << value.name;
    if (stream) {
      EXPECT_EQ(value.bytes, value.shape[0] * value.shape[1] * 4) << value.name;
    }
  }
  for (const plan::Unit& unit : spec.program.units)
    EXPECT_EQ(unit.type.has_value(), unit.name == "s0.route" || unit.name == "s0.join")
        << unit.name;
  EXPECT_EQ(exact_parts(DType::kF32), 1);
  EXPECT_EQ(exact_parts(DType::kBF16), 3);
}

// Outside each of 64 bytes sees itself and 7 before it.
TEST(Hnet, WindowsCostWhatTheyShow) {
  config::Hnet windowed;
  windowed.window = "7,-1";
  const ModelSpec all = describe(hnet_job({})), some = describe(hnet_job(windowed));
  for (std::size_t n = 0; n < all.program.nodes.size(); ++n) {
    const plan::Node &a = all.program.nodes[n], &b = some.program.nodes[n];
    const bool outer = a.name.starts_with("s0.encoder") || a.name.starts_with("s0.decoder");
    // 8 of 64 seen are as many scores as a causal attention over 8 x (2 - 8 / 64) = 15 has.
    EXPECT_DOUBLE_EQ(a.flops - b.flops, outer ? 2.0 * 64 * 128 * (64 - 15) : 0) << a.name;
  }
}

TEST(Hnet, NodesFollowTheLayout) {
  const ModelSpec spec =
      describe(hnet_job(two_stages("T1,[T1,[T1],T1],T1", "64,64,64", "64,64,64")));
  std::vector<std::string> names;
  for (const plan::Node& node : spec.program.nodes) names.push_back(node.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "s0.encoder.0", "s0.route", "s0.ratio",
                                             "s1.encoder.0", "s1.route", "s1.ratio", "s2.main.0",
                                             "s1.join", "s1.decoder.0", "s0.join", "s0.decoder.0",
                                             "head"}));
}

}  // namespace
}  // namespace trireme::model::hnet_test
