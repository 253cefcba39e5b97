// An H-Net in fp64 against an independent forward and backward in NumPy: tests/model/blocks/hnet_fixture.py prints the table.
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/harness/whole_model.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::blocks::hnet_fixture_test {
namespace {

constexpr double kLoss = 203.69770552713163;
constexpr double kRatioLosses[] = {1.5789238636156648, 1.5205534499112239};
const std::map<std::string, double> kGradientNorms = {
    {"backbone.decoder.layers.0.mixer.Wqkv.weight", 10.462166257179106},
    {"backbone.decoder.layers.0.mixer.out_proj.weight", 10.915660562399735},
    {"backbone.decoder.layers.0.norm1.weight", 1.405347780074839},
    {"backbone.decoder.rmsnorm.weight", 4.823915718268966},
    {"backbone.encoder.layers.0.mixer.A_log", 0.00740073811941902},
    {"backbone.encoder.layers.0.mixer.D", 0.0489787423909292},
    {"backbone.encoder.layers.0.mixer.conv1d.bias", 35.84197037259309},
    {"backbone.encoder.layers.0.mixer.conv1d.weight", 34.82445973763432},
    {"backbone.encoder.layers.0.mixer.dt_bias", 0.07154539576706387},
    {"backbone.encoder.layers.0.mixer.in_proj.weight", 52.83407067978031},
    {"backbone.encoder.layers.0.mixer.norm.weight", 5.049154489141026},
    {"backbone.encoder.layers.0.mixer.out_proj.weight", 48.15840626766184},
    {"backbone.encoder.layers.0.norm1.weight", 5.60799737734005},
    {"backbone.encoder.layers.1.mixer.Wqkv.weight", 14.003286424941189},
    {"backbone.encoder.layers.1.mixer.out_proj.weight", 13.498502637862948},
    {"backbone.encoder.layers.1.mlp.fc1.weight", 9.011119372469828},
    {"backbone.encoder.layers.1.mlp.fc2.weight", 5.780774891793057},
    {"backbone.encoder.layers.1.norm1.weight", 1.5679689475933376},
    {"backbone.encoder.layers.1.norm2.weight", 0.8162898489705794},
    {"backbone.encoder.rmsnorm.weight", 5.894440254519482},
    {"backbone.main_network.decoder.layers.0.mixer.A_log", 0.032849979686731486},
    {"backbone.main_network.decoder.layers.0.mixer.D", 0.029416578092909207},
    {"backbone.main_network.decoder.layers.0.mixer.conv1d.bias", 8.919329996090925},
    {"backbone.main_network.decoder.layers.0.mixer.conv1d.weight", 9.294569603538244},
    {"backbone.main_network.decoder.layers.0.mixer.dt_bias", 0.03090133742194482},
    {"backbone.main_network.decoder.layers.0.mixer.in_proj.weight", 20.071346984477284},
    {"backbone.main_network.decoder.layers.0.mixer.norm.weight", 1.8435497549130633},
    {"backbone.main_network.decoder.layers.0.mixer.out_proj.weight", 17.18357584176094},
    {"backbone.main_network.decoder.layers.0.norm1.weight", 2.628893449811525},
    {"backbone.main_network.decoder.rmsnorm.weight", 3.0859145067478586},
    {"backbone.main_network.encoder.layers.0.mixer.Wqkv.weight", 10.686639296033793},
    {"backbone.main_network.encoder.layers.0.mixer.out_proj.weight", 12.668425110544106},
    {"backbone.main_network.encoder.layers.0.norm1.weight", 1.4818920114615366},
    {"backbone.main_network.encoder.rmsnorm.weight", 5.13599413916275},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.A_log", 0.10239839547691278},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.D", 0.4762314440262594},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.conv1d.bias",
     16.87863262769208},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.conv1d.weight",
     16.571457095614658},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.dt_bias", 0.3036533866873599},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.in_proj.weight",
     34.141325722570244},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.norm.weight",
     2.9659217912063736},
    {"backbone.main_network.main_network.main_network.layers.0.mixer.out_proj.weight",
     25.330133344288342},
    {"backbone.main_network.main_network.main_network.layers.0.mlp.fc1.weight", 8.12896022210273},
    {"backbone.main_network.main_network.main_network.layers.0.mlp.fc2.weight", 5.507145190122569},
    {"backbone.main_network.main_network.main_network.layers.0.norm1.weight", 3.768690630209596},
    {"backbone.main_network.main_network.main_network.layers.0.norm2.weight", 0.8977481643353976},
    {"backbone.main_network.main_network.main_network.layers.1.mixer.Wqkv.weight",
     13.202324585817863},
    {"backbone.main_network.main_network.main_network.layers.1.mixer.out_proj.weight",
     13.1605565359249},
    {"backbone.main_network.main_network.main_network.layers.1.mlp.fc1.weight", 7.416004391504421},
    {"backbone.main_network.main_network.main_network.layers.1.mlp.fc2.weight", 4.233789917259106},
    {"backbone.main_network.main_network.main_network.layers.1.norm1.weight", 1.8919144086022244},
    {"backbone.main_network.main_network.main_network.layers.1.norm2.weight", 0.9578293079805936},
    {"backbone.main_network.main_network.main_network.rmsnorm.weight", 2.5908427397124107},
    {"backbone.main_network.main_network.pad_dimension", 4.204543759747325},
    {"backbone.main_network.residual_proj.bias", 4.201433415321377},
    {"backbone.main_network.residual_proj.weight", 16.32410421924127},
    {"backbone.main_network.routing_module.k_proj_layer.weight", 1.6722316037419094},
    {"backbone.main_network.routing_module.q_proj_layer.weight", 1.6665933810738505},
    {"backbone.residual_proj.bias", 4.476847925237588},
    {"backbone.residual_proj.weight", 21.415924708414746},
    {"backbone.routing_module.k_proj_layer.weight", 2.093046952242955},
    {"backbone.routing_module.q_proj_layer.weight", 2.1775448959863284},
    {"embeddings.weight", 55.06656507627812},
    {"lm_head.weight", 41.66124204593494},
};

constexpr std::int64_t kVocab = 61, kSamples = 2, kLength = 24;

// Two routers, all four kinds of blocks, a window, a stage that is wider than the one around it.
config::Job fixture_job() {
  config::Job job;
  job.model = {
      .family = config::Family::kHnet, .vocab = kVocab, .seq_len = kLength, .norm_eps = 1e-5};
  job.hnet = {.layout = "m1T1,[t1,[M1T1],m1],t1",
              .hidden = "32,32,64",
              .heads = "2,2,4",
              .ffn = "24,0,40",
              .ratio = "3,2",
              .ratio_weight = 0.03,
              .window = "5,-1,-1"};
  job.precision.compute = DType::kF64;
  job.run.micro_batch = job.run.global_batch = kSamples;
  return config::resolve(job, 1, {.vocab = kVocab});
}

// A function of the parameter's name and of the element's number: gains are near 1, all else near 0.
at::Tensor by_formula(const model::ParamSpec& param) {
  std::int64_t key = 0;
  for (std::size_t place = 0; place < param.name.size(); ++place)
    key += static_cast<std::int64_t>(place + 1) * param.name[place];
  const double middle = param.init.kind == model::Init::Kind::kOnes ? 1 : 0;
  std::vector<double> values;
  for (std::int64_t i = 0; i < param.numel(); ++i) {
    const double drawn = static_cast<double>((31 * i * i + 7919 * i + key) % 10007) / 10007.0;
    values.push_back(middle + 0.4 * (drawn - 0.5));
  }
  return at::tensor(values, at::TensorOptions().dtype(at::kDouble)).reshape(param.shape);
}

// (a n^2 + b n) mod vocabulary of the n-th position.
at::Tensor ids(std::int64_t a, std::int64_t b) {
  std::vector<std::int64_t> values;
  for (std::int64_t n = 0; n < kSamples * kLength; ++n)
    values.push_back((a * n * n + b * n) % kVocab);
  return at::tensor(values, at::TensorOptions().dtype(at::kLong)).reshape({kSamples, kLength});
}

TEST(HnetFixture, LossAndGradientsAreThoseOfNumpy) {
  harness::WholeModel model(fixture_job(), by_formula);
  const auto values = model.run({ids(7, 3), ids(5, 11)});
  EXPECT_NEAR(values.at("loss").item<double>(), kLoss, 1e-12 * kLoss);
  for (const std::size_t s : {0, 1})
    EXPECT_NEAR(values.at("ratio_loss." + std::to_string(s)).item<double>(), kRatioLosses[s],
                1e-12 * kRatioLosses[s]);
  harness::WholeModel::loss(values).backward();
  EXPECT_EQ(model.params.size(), kGradientNorms.size());
  for (const auto& [name, norm] : kGradientNorms) {
    ASSERT_TRUE(model.params.contains(name)) << name;
    EXPECT_NEAR(model.params.at(name).grad().norm().item<double>(), norm, 1e-12 * norm) << name;
  }
}

}  // namespace
}  // namespace trireme::blocks::hnet_fixture_test
