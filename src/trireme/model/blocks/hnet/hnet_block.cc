// Suffixes: t packed row, d width, f feed-forward width.
#include "trireme/model/blocks/hnet/hnet_block.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>

#include <utility>

#include "trireme/config/rope.h"
#include "trireme/exec/past.h"
#include "trireme/model/blocks/hnet/mamba.h"
#include "trireme/model/blocks/past_attention.h"
#include "trireme/ops/attention/attention.h"
#include "trireme/ops/feed_forward.h"
#include "trireme/ops/linear.h"
#include "trireme/ops/norm.h"
#include "trireme/plan/mesh/share.h"

namespace trireme::blocks {
namespace {

// Parameters: norm1, the mixer's and, with a feed-forward layer, norm2, fc1, fc2.
class HnetBlock : public BoundBlock {
 public:
  HnetBlock(const config::Model& model, const config::HnetStage& stage, bool feeds, Ranks ranks)
      : BoundBlock(std::move(ranks)), model_(model), stage_(stage), feeds_(feeds) {}

  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs,
                                  const exec::BlockContext& context) final {
    const ops::WeightGradientsPtr& gradients = context.weight_gradients;
    exec::Past* const past = context.past;
    if (past != nullptr && inputs[0].size(0) == 0) return {inputs[0]};
    const ops::Branching first =
        ops::residual_norm(inputs[0].unsqueeze(0), {}, param(0), {}, model_.norm_eps, gradients);
    const at::Tensor mixed = mix(first.normed, Sequences(inputs[1]), gradients, past);
    const at::Tensor x = feeds_ ? fed(first.stream, mixed, gradients) : first.stream + mixed;
    if (past != nullptr) past->rows += inputs[0].size(0);
    return {x.squeeze(0)};
  }

 protected:
  // x: [1, rows, d]; the result likewise.
  virtual at::Tensor mix(const ops::Operand& x, const Sequences& sequences,
                         const ops::WeightGradientsPtr& gradients, exec::Past* past) const = 0;
  const config::Model& model() const { return model_; }
  const config::HnetStage& stage() const { return stage_; }

 private:
  at::Tensor fed(const at::Tensor& stream, const at::Tensor& mixed,
                 const ops::WeightGradientsPtr& gradients) const {
    const std::size_t norm2 = params() - 3;
    const ops::Branching second =
        ops::residual_norm(stream, mixed, param(norm2), {}, model_.norm_eps, gradients);
    const auto wide =
        ops::column_linear(second.normed, param(norm2 + 1), {}, tp(), gradients).value.chunk(2, -1);
    return second.stream + ops::gated_linear(wide[1].contiguous(), wide[0].contiguous(),
                                             param(norm2 + 2), tp(), gradients);
  }

  config::Model model_;
  config::HnetStage stage_;
  bool feeds_;
};

class AttentionBlock final : public HnetBlock {
 public:
  using HnetBlock::HnetBlock;

 protected:
  at::Tensor mix(const ops::Operand& x, const Sequences& sequences,
                 const ops::WeightGradientsPtr& gradients, exec::Past* past) const override {
    if (past != nullptr) return mix_on(x, *past);
    const mesh::Share mine = mesh::share(stage().heads, tp().rank(), tp().size());
    const std::int64_t width = stage().hidden / stage().heads;
    const auto qkv = ops::column_linear(x, param(1), {}, tp(), gradients).value.chunk(3, -1);
    const ops::ContextParallel cp = across().cp(sequences.position.size(0));
    const mesh::Share rows = mesh::share(cp.layout.tokens, cp.rank(), cp.size());
    const auto own = [&](const at::Tensor& of_rows) {
      return of_rows.narrow(0, rows.begin, rows.count());
    };
    const auto turn = [&](const at::Tensor& heads) {
      return turned(heads.reshape({-1, mine.count(), width}), own(sequences.position),
                    frequencies(width))
          .reshape(heads.sizes());
    };
    const ops::Operand attended = ops::attention(
        turn(qkv[0]), turn(qkv[1]), qkv[2].contiguous(),
        {.heads = mine.count(),
         .kv_heads = mine.count(),
         .first_head = mine.begin,
         .all_heads = stage().heads},
        ops::Mask::causal({.begin = own(sequences.begin).unsqueeze(0), .end = {}}, stage().window),
        cp);
    return ops::row_linear(attended.value, param(2), {}, tp(), gradients);
  }

 private:
  // Of half of a head's channels.
  std::vector<double> frequencies(std::int64_t width) const {
    return config::rope_frequencies(model().rope_theta, width / 2);
  }
  // Of rows that follow others on one rank.
  at::Tensor mix_on(const ops::Operand& x, exec::Past& past) const {
    const std::int64_t rows = x.value.size(-2), width = stage().hidden / stage().heads;
    const auto heads = [&](const at::Tensor& of) { return of.reshape({rows, -1, width}); };
    const auto qkv = ops::column_linear(x, param(1), {}, tp()).value.chunk(3, -1);
    const at::Tensor places =
        at::arange(past.rows, past.rows + rows, x.value.options().dtype(at::kLong));
    const auto turn = [&](const at::Tensor& of) {
      return turned(heads(of), places, frequencies(width));
    };
    const at::Tensor mixed =
        attend_after(past, turn(qkv[0]), turn(qkv[1]), heads(qkv[2]), stage().window);
    return ops::row_linear(mixed.reshape(x.value.sizes()), param(2), {}, tp());
  }
};

class MambaBlock final : public HnetBlock {
 public:
  using HnetBlock::HnetBlock;

 protected:
  at::Tensor mix(const ops::Operand& x, const Sequences& sequences,
                 const ops::WeightGradientsPtr& gradients, exec::Past* past) const override {
    const MambaParams params{.in = param(kIn),
                             .taps = param(kTaps),
                             .taps_bias = param(kTapsBias),
                             .step_bias = param(kStepBias),
                             .log_rate = param(kLogRate),
                             .skip = param(kSkip),
                             .norm = param(kNorm),
                             .out = param(kOut)};
    return mamba(x, params, sequences, model().norm_eps, tp(), gradients, past);
  }

 private:
  enum Param { kIn = 1, kTaps, kTapsBias, kStepBias, kLogRate, kSkip, kNorm, kOut };
};

}  // namespace

at::Tensor turned(const at::Tensor& x, const at::Tensor& positions,
                  const std::vector<double>& frequencies) {
  const at::ScalarType type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const std::int64_t half = std::ssize(frequencies), width = 2 * half;
  const at::Tensor angles = positions.to(at::kDouble).unsqueeze(1) *
                            at::tensor(frequencies, at::kDouble).to(positions.device());
  const at::Tensor cosines = angles.cos().to(type).unsqueeze(1),
                   sines = angles.sin().to(type).unsqueeze(1);
  const at::Tensor first = x.narrow(-1, 0, half).to(type),
                   second = x.narrow(-1, half, half).to(type);
  return at::cat({(first * cosines - second * sines).to(x.scalar_type()),
                  (second * cosines + first * sines).to(x.scalar_type()),
                  x.narrow(-1, width, x.size(-1) - width)},
                 -1);
}

std::unique_ptr<exec::Block> hnet_block(const config::Model& model, const config::HnetStage& stage,
                                        char letter, const Ranks& ranks) {
  const bool feeds = letter == 'T' || letter == 'M';
  if (letter == 't' || letter == 'T')
    return std::make_unique<AttentionBlock>(model, stage, feeds, ranks);
  return std::make_unique<MambaBlock>(model, stage, feeds, ranks);
}

}  // namespace trireme::blocks
