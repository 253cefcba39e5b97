// An H-Net as a whole: sequences do not see each other, bytes do not see what follows, every parameter is reached.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/randint.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "tests/harness/whole_model.h"
#include "tests/model/blocks/text_by_windows.h"
#include "trireme/base/hash.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/exec/units/initial_values.h"
#include "trireme/families/hnet/blocks.h"
#include "trireme/model/blocks/generate.h"

namespace trireme::blocks::hnet_test {
namespace {

config::Job hnet_job(const std::string& layout, DType compute = DType::kF64) {
  const bool nested = layout.find('[') != layout.rfind('[');
  config::Job job;
  job.model = {.family = config::Family::kHnet, .vocab = 61, .seq_len = 24, .init_std = 0.3};
  job.hnet = {
      .layout = layout,
      .hidden = nested ? "32,32,64" : "32,64",
      .heads = nested ? "2,2,4" : "2,4",
      .ffn = layout[0] == 'm' ? (nested ? "0,40,48" : "0,48") : (nested ? "24,40,48" : "24,48"),
      .ratio = nested ? "3,2" : "3"};
  job.precision.compute = compute;
  job.run.micro_batch = 2;
  job.run.global_batch = 2;
  return config::resolve(job, 1, {.vocab = 61});
}

at::Tensor tokens_of(std::int64_t rows, std::uint64_t seed) {
  return at::randint(61, {rows, 24}, at::make_generator<at::CPUGeneratorImpl>(seed),
                     at::TensorOptions().dtype(at::kLong));
}

// With which values parameters are filled: functions of their names of a deviation that makes all of a model count, or
// those with which training begins.
enum class Fill { kWide, kInitial };

at::Tensor filled(const model::ParamSpec& param, Fill fill) {
  if (fill == Fill::kInitial)
    return exec::initial_values(param, 0, param.numel(), exec::initial_generator(param, 3))
        .reshape(param.shape);
  at::Tensor value = at::empty(param.shape, at::TensorOptions().dtype(at::kDouble));
  return value.normal_(param.init.kind == model::Init::Kind::kOnes ? 1 : 0, 0.2,
                       at::make_generator<at::CPUGeneratorImpl>(hash64(param.name)));
}

// With parameters that are wide, or as training begins.
class Whole : public harness::WholeModel {
 public:
  explicit Whole(const config::Job& job, Fill fill = Fill::kWide)
      : WholeModel(job, [fill](const model::ParamSpec& param) { return filled(param, fill); }) {}
};

const char* const kLayouts[] = {"T1,[T1],T1", "t1T1,[T1,[T1t1],T1],T1", "m1,[T1],m1",
                                "m1,[T1m1,[M1],T1],m1"};

// Oracle 13.
TEST(Hnet, PackedSequencesAreAsIfEachWereAlone) {
  for (const char* layout : kLayouts) {
    Whole model(hnet_job(layout));
    const at::Tensor tokens = tokens_of(3, 1), targets = tokens_of(3, 2);
    const auto packed = model.run({tokens, targets});
    double loss = 0;
    std::vector<at::Tensor> rows;
    const std::string last = "s0.decoder.0.x";
    for (std::int64_t i = 0; i < 3; ++i) {
      const auto alone = model.run({tokens.narrow(0, i, 1), targets.narrow(0, i, 1)});
      loss += Whole::loss(alone).item<double>();
      rows.push_back(alone.at(last));
    }
    EXPECT_NEAR(Whole::loss(packed).item<double>(), loss, 1e-12 * loss) << layout;
    const at::Tensor separate = at::cat(rows);
    EXPECT_LT((packed.at(last) - separate).abs().max().item<double>(), 1e-12) << layout;
    EXPECT_LT(packed.at("chunks.0").size(0), 3 * 24) << layout;
    EXPECT_GT(packed.at("chunks.0").size(0), 3) << layout;
  }
}

TEST(Hnet, DocumentsOfASampleAreAsIfEachWereAlone) {
  config::Job job = hnet_job("T1,[T1],T1");
  job.data.documents = true;
  Whole within(job);
  Whole alone(hnet_job("T1,[T1],T1"));
  const at::Tensor tokens = tokens_of(1, 1), targets = tokens_of(1, 2);
  at::Tensor positions = at::arange(24, at::kLong).unsqueeze(0).clone();
  positions.narrow(1, 9, 15).sub_(9);
  double loss = 0;
  for (const auto& [first, count] : {std::pair(0, 9), std::pair(9, 15)})
    loss +=
        Whole::loss(alone.run({tokens.narrow(1, first, count), targets.narrow(1, first, count)}))
            .item<double>();
  EXPECT_NEAR(Whole::loss(within.run({tokens, targets, positions})).item<double>(), loss, 1e-11);
}

TEST(Hnet, NoByteSeesWhatFollows) {
  for (const char* layout : kLayouts) {
    Whole model(hnet_job(layout));
    const at::Tensor tokens = tokens_of(1, 3), targets = tokens_of(1, 4);
    at::Tensor other = tokens.clone();
    other.narrow(1, 15, 9).fill_(7);
    const std::string last = "s0.decoder.0.x";
    const at::Tensor a = model.run({tokens, targets}).at(last),
                     b = model.run({other, targets}).at(last);
    EXPECT_LT((a - b).narrow(0, 0, 15).abs().max().item<double>(), 1e-12) << layout;
    EXPECT_GT((a - b).narrow(0, 15, 9).abs().max().item<double>(), 1e-3) << layout;
  }
}

TEST(Hnet, EveryParameterIsReached) {
  for (const char* layout : kLayouts)
    for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
      Whole model(hnet_job(layout, compute));
      const at::Tensor loss = Whole::loss(model.run({tokens_of(2, 5), tokens_of(2, 6)}));
      loss.backward();
      for (const auto& [name, param] : model.params) {
        ASSERT_TRUE(param.grad().defined()) << layout << " " << name;
        EXPECT_TRUE(param.grad().isfinite().all().item<bool>()) << layout << " " << name;
        EXPECT_GT(param.grad().abs().sum().item<double>(), 0) << layout << " " << name;
      }
    }
}

// Gradients that come through the confidence are not those of differences; all others are, where no boundary moves.
TEST(Hnet, GradientsBehindTheRoutersAreThoseOfDifferences) {
  Whole model(hnet_job("T1,[m1T1],T1"));
  const at::Tensor tokens = tokens_of(2, 7), targets = tokens_of(2, 8);
  Whole::loss(model.run({tokens, targets})).backward();
  for (const auto& [name, param] : model.params) {
    if (name.find("decoder") == name.npos && name.find("main_network") == name.npos &&
        name.find("residual") == name.npos)
      continue;
    at::NoGradGuard no_grad;
    at::Tensor flat = param.view({-1});
    const double gradient = param.grad().view({-1})[1].item<double>();
    const auto moved = [&](double by) {
      flat[1] += by;
      const double loss = Whole::loss(model.run({tokens, targets})).item<double>();
      flat[1] -= by;
      return loss;
    };
    EXPECT_NEAR(gradient, (moved(1e-5) - moved(-1e-5)) / 2e-5, 1e-6 * (1 + std::abs(gradient)))
        << name;
  }
}

TEST(Hnet, CountsNatsAndChunksOfWhatHasTargets) {
  Whole model(hnet_job("T1,[T1,[T1],T1],T1"));
  at::Tensor targets = tokens_of(2, 10);
  targets[1].fill_(-100);
  const auto values = model.run({tokens_of(2, 9), targets});
  const auto& counts = model.counts.all();
  EXPECT_EQ(counts[0].of, 24);
  EXPECT_DOUBLE_EQ(counts[0].sum, values.at("loss").item<double>());
  EXPECT_EQ(counts[1].of, 24);
  EXPECT_EQ(counts[1].sum, values.at("boundary.0").narrow(0, 0, 24).sum().item<double>());
  EXPECT_EQ(counts[2].of, counts[1].sum);
}

// The logits behind a prefix say of the next byte what training says of it in the whole text.
TEST(Hnet, GeneratesByTheProbabilitiesItIsTrainedFor) {
  for (const char* layout : kLayouts) {
    Whole model(hnet_job(layout));
    const at::Tensor tokens = tokens_of(1, 13);
    for (const std::int64_t last : {0, 1, 10, 23}) {
      at::Tensor targets = at::full({1, 24}, -100, at::kLong);
      targets[0][last] = 5;
      const double loss = model.run({tokens, targets}).at("loss").item<double>();
      const std::int64_t* const text = tokens.data_ptr<std::int64_t>();
      const at::Tensor logits = next_logits(model.model(), {text, text + last + 1}, 24);
      ASSERT_EQ(logits.sizes(), at::IntArrayRef{61});
      EXPECT_NEAR(-at::log_softmax(logits, 0)[5].item<double>(), loss, 1e-12) << layout << last;
    }
  }
}

// Read in parts of any sizes, with windows that end inside, a text has the logits of the whole one.
TEST(Hnet, ATextThatGrowsIsReadOnce) {
  for (const char* layout : kLayouts)
    for (const bool windowed : {false, true}) {
      config::Job job = hnet_job(layout);
      const bool nested = job.hnet.hidden == "32,32,64";
      if (windowed) job.hnet.window = nested ? "3,2,1" : "3,1";
      Whole model(job);
      const at::Tensor tokens = tokens_of(1, 17);
      const std::int64_t* const text = tokens.data_ptr<std::int64_t>();
      GrowingText growing(model.model());
      for (const std::int64_t end : {1, 2, 3, 9, 10, 11, 20, 24}) {
        const std::vector<std::int64_t> so_far(text, text + end);
        const at::Tensor whole = next_logits(model.model(), so_far, 24);
        EXPECT_LT((growing.next_logits(so_far) - whole).abs().max().item<double>(), 1e-11)
            << layout << windowed << end;
      }
    }
}

TEST(Hnet, GeneratesTheSameTextWithAPastAsWithout) {
  for (const DType compute : {DType::kF64, DType::kF32, DType::kBF16}) {
    Whole model(hnet_job("T1m1,[T1m1,[M1],T1],m1", compute));
    // Beyond the context the window slides in both.
    GenerateArgs args{
        .prompt = {3, 1, 4}, .max_tokens = 40, .context = 24, .sampling = {.temperature = 0}};
    const auto again = harness::text_by_windows(model.model(), args);
    const auto once = generate(model.model(), args);
    ASSERT_EQ(once.size(), 40U);
    // In bf16 sums of other shapes round otherwise, which may move a boundary.
    if (compute != DType::kBF16) {
      EXPECT_EQ(once, again) << name(compute);
    }
  }
}

// A window of a stage is of its own positions: bytes outside, chunks inside.
TEST(Hnet, WindowsEndWhatAttentionSees) {
  config::Job job = hnet_job("T1,[T1],T1");
  const at::Tensor tokens = tokens_of(1, 14), targets = tokens_of(1, 15);
  at::Tensor other = tokens.clone();
  other.narrow(1, 0, 4).fill_(7);
  const auto apart = [&](const std::string& window) {
    job.hnet.window = window;
    Whole model(job);
    const std::string first = "s0.encoder.0.x";
    return (model.run({tokens, targets}).at(first) - model.run({other, targets}).at(first))
        .abs()
        .amax(1);
  };
  const at::Tensor within = apart("5,-1"), all = apart("");
  EXPECT_EQ(within.narrow(0, 9, 15).max().item<double>(), 0);  // 9 - 5 is behind the change
  EXPECT_GT(within[8].item<double>(), 1e-6);
  EXPECT_GT(all[23].item<double>(), 1e-6);
  EXPECT_TRUE(at::equal(apart("1023,1023"), all));
}

TEST(Hnet, RoutersSeeFp32WhereTheRestIsBf16) {
  Whole model(hnet_job("T1,[T1],T1", DType::kBF16));
  const auto values = model.run({tokens_of(2, 11), tokens_of(2, 12)});
  EXPECT_EQ(values.at("p.0").scalar_type(), at::kBFloat16);
  EXPECT_EQ(values.at("p.0").size(1), 3);
  EXPECT_EQ(values.at("skip.0").scalar_type(), at::kBFloat16);
  EXPECT_GT(values.at("p.0").select(1, 2).abs().sum().item<double>(), 0);  // bits that bf16 loses
}

TEST(Hnet, TheResidualStreamOfNarrowJobsIsFp32) {
  for (const DType compute : {DType::kBF16, DType::kF32, DType::kF64}) {
    Whole model(hnet_job("T1m1,[T1t1],m1", compute));
    const auto values = model.run({tokens_of(2, 11), tokens_of(2, 12)});
    for (const char* name : {"bytes", "s0.encoder.0.x", "s0.encoder.1.x", "chunks.0", "s1.main.0.x",
                             "s1.main.1.x", "s0.join.x", "s0.decoder.0.x"})
      EXPECT_EQ(values.at(name).scalar_type(), compute == DType::kF64 ? at::kDouble : at::kFloat)
          << name << trireme::name(compute);
  }
}

// At the start every one of 48 additions is small beside the stream: rounding each to bf16 costs 1.09%.
TEST(Hnet, DeepStacksInBf16StayNearFp64) {
  const at::Tensor tokens = tokens_of(2, 11), targets = tokens_of(2, 12);
  const auto rows_in = [&](DType compute) {
    config::Job job = hnet_job("T1,[T1],T1", compute);
    job.model.init_std = 0.02;
    job.hnet.layout = "T24,[t1],t1";
    job.hnet.hidden = "512,512", job.hnet.heads = "8,8", job.hnet.ffn = "512,0";
    at::NoGradGuard no_grad;
    return Whole(config::resolve(job, 1, {.vocab = 61}), Fill::kInitial)
        .run({tokens, targets})
        .at("s0.encoder.23.x")
        .to(at::kDouble);
  };
  const at::Tensor exact = rows_in(DType::kF64), narrow = rows_in(DType::kBF16);
  const double apart = ((narrow - exact).norm() / exact.norm()).item<double>();
  RecordProperty("apart", std::to_string(apart));
  EXPECT_LT(apart, 0.004);
  EXPECT_GT(apart, 1e-5);
}

}  // namespace
}  // namespace trireme::blocks::hnet_test
