#include "trireme/families/probe/blocks.h"

#include <ATen/ops/log_softmax.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/families/jepa/blocks_tower.h"
#include "trireme/families/probe/model.h"
#include "trireme/families/vit/blocks_encoder.h"
#include "trireme/model/blocks/activation.h"
#include "trireme/ops/flop_count.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"

namespace trireme::blocks {
namespace {

// One learned query attends to all tokens of a clip, and a feed-forward layer and a classifier follow. Inputs: tokens
// [samples, tokens, hidden], labels int64 [samples].
class ProbeHead : public BoundBlock {
 public:
  // Its answers are the `metric`-th that the model counts.
  ProbeHead(const config::Job& job, std::size_t metric, Ranks across)
      : BoundBlock(std::move(across)), job_(job), metric_(metric) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) override {
    const at::Tensor scores = scores_of(inputs[0], context);
    const Answers answers =
        average_views(scores.to(statistics_type(scores.scalar_type())), inputs[1]);
    if (context.counts != nullptr)
      context.counts->add(
          metric_, answers.log_probabilities.argmax(-1).eq(answers.labels).sum().item<double>(),
          answers.labels.ge(0).sum().item<double>());
    return {at::nll_loss(answers.log_probabilities, answers.labels, {}, at::Reduction::Sum)};
  }

 private:
  enum Param {
    kQuery,
    kNorm1,
    kNorm1Bias,
    kQ,
    kQBias,
    kKv,
    kKvBias,
    kNorm2,
    kNorm2Bias,
    kUp,
    kUpBias,
    kDown,
    kDownBias,
    kClasses,
    kClassesBias
  };

  at::Tensor scores_of(const at::Tensor& x_btd, const exec::BlockContext& context) const {
    const auto linear = [&](const at::Tensor& x, Param weight) {
      return ops::linear(x, param(weight), param(weight + 1), context.weight_gradients);
    };
    const auto norm = [&](const at::Tensor& x, Param gain) {
      return ops::layer_norm(x, param(gain), param(gain + 1), model::kProbeNormEps,
                             context.weight_gradients);
    };
    const std::int64_t samples = x_btd.size(0), heads = job_.probe.heads;
    const at::Tensor query = param(kQuery).flatten(0, 1);  // [1, hidden]
    const auto by_head = [&](const at::Tensor& x) {
      return x.unflatten(-1, at::IntArrayRef{heads, -1}).transpose(1, 2);
    };
    const std::vector<at::Tensor> kv = linear(norm(x_btd, kNorm1), kKv).chunk(2, -1);
    const at::Tensor q = by_head(linear(query, kQ).unsqueeze(0));
    const at::Tensor attended = attend(q, by_head(kv[0]), by_head(kv[1]));
    const at::Tensor stream = query + attended.transpose(1, 2).reshape({samples, query.size(1)});
    const at::Tensor up = activated(linear(norm(stream, kNorm2), kUp), job_.vision.activation);
    return linear(stream + linear(up, kDown), kClasses);
  }

  // q: [1, heads, 1, width]; k, v: [samples, heads, tokens, width].
  static at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v) {
    const double scale = 1 / std::sqrt(static_cast<double>(q.size(-1)));
    const at::Tensor products = ops::counted(at::matmul(q, k.transpose(-1, -2)), q.size(-1));
    const at::Tensor scores = products.to(statistics_type(q.scalar_type())) * scale;
    return ops::counted(at::matmul(at::softmax(scores, -1).to(v.scalar_type()), v), v.size(-2));
  }

  config::Job job_;
  std::size_t metric_;
};

}  // namespace

Answers average_views(const at::Tensor& scores, const at::Tensor& labels) {
  const at::Tensor first = labels.ne(model::kSameSample);
  if (first.all().item<bool>())
    return {.log_probabilities = at::log_softmax(scores, -1), .labels = labels};
  TRIREME_CHECK(first[0].item<bool>(), "views of a sample that is not in the micro-batch");
  const at::Tensor sample = first.cumsum(0) - 1, own = labels.masked_select(first);
  const at::Tensor views = at::zeros({own.size(0)}, scores.options())
                               .index_add(0, sample, at::ones({labels.size(0)}, scores.options()));
  const at::Tensor sums = at::zeros({own.size(0), scores.size(1)}, scores.options())
                              .index_add(0, sample, at::softmax(scores, -1));
  return {.log_probabilities = (sums / views.unsqueeze(1)).log(), .labels = own};
}

Blocks probe_blocks(const config::Job& job, const model::ModelSpec& spec, const Ranks& ranks) {
  const std::int64_t samples = job.run.micro_batch, segments = job.probe.segments;
  Blocks blocks = frozen_tower_blocks(job, model::tower(job.vision, samples * segments),
                                      VideoEmbed::Frames::kTogether, VideoNorm::Gives::kFeatures,
                                      ranks, segments);
  const model::Encoder encoder = model::probe_encoder(job, samples);
  const EncoderBlock::Look look =
      job.vision.chunked
          ? video_look(job, model::patch_grid(job.vision), job.probe.heads, ranks->device())
          : always({});
  for (std::size_t probe = 0; probe < spec.metrics.size(); ++probe) {
    for (std::int64_t layer = 0; layer + 1 < job.probe.layers; ++layer)
      blocks.push_back(std::make_unique<EncoderBlock>(encoder, model::kProbeNormEps, look, ranks));
    blocks.push_back(std::make_unique<ProbeHead>(job, probe, ranks));
  }
  return blocks;
}

}  // namespace trireme::blocks
