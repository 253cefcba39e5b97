#include "trireme/model/blocks/generate.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/model/blocks/blocks.h"
#include "trireme/ops/cross_entropy.h"

namespace trireme::blocks {
namespace {

void check(const Sampling& sampling) {
  if (!(sampling.temperature >= 0) || std::isinf(sampling.temperature))
    fail(ErrorKind::kUsage, "temperature {}: needs 0 (the likeliest token) or more",
         sampling.temperature);
  if (sampling.top_k < 0)
    fail(ErrorKind::kUsage, "top-k {}: needs 0 (all) or more", sampling.top_k);
  if (!(sampling.top_p > 0 && sampling.top_p <= 1))
    fail(ErrorKind::kUsage, "top-p {}: needs more than 0 and at most 1 (all)", sampling.top_p);
}

std::vector<double> as_doubles(const at::Tensor& logits) {
  const at::Tensor wide = logits.detach().to(at::kDouble).contiguous();
  const double* const begin = wide.data_ptr<double>();
  std::vector<double> values(begin, begin + wide.numel());
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      fail(ErrorKind::kNonFinite,
           "the logit of token {} is {}: the checkpoint's weights are not usable", i, values[i]);
  return values;
}

// Token ids by falling logit; ties by id.
std::vector<std::int64_t> ranking(const std::vector<double>& logits) {
  std::vector<std::int64_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(),
                   [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  return ids;
}

std::vector<at::Tensor> read_by(const plan::Node& node, const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> reads;
  for (const plan::ValueId id : node.reads) reads.push_back(values[id]);
  return reads;
}

struct HeadPlace {
  const LanguageHead* block;
  std::size_t node;
};

// Only a preference loss follows it.
HeadPlace head_of(const exec::Model& model) {
  for (std::size_t node = model.blocks.size(); node-- > 0;)
    if (const auto* head = dynamic_cast<const LanguageHead*>(&model.blocks[node]->innermost()))
      return {head, node};
  TRIREME_CHECK(false, "{} has no language head", model.spec.program.name);
}

std::vector<at::Tensor> read_by_head(const exec::Model& model,
                                     const std::vector<at::Tensor>& values) {
  return read_by(model.spec.program.nodes[head_of(model).node], values);
}

}  // namespace

std::int64_t sample(const at::Tensor& logits, const Sampling& sampling, std::int64_t index) {
  check(sampling);
  const std::vector<double> values = as_doubles(logits);
  std::vector<std::int64_t> ids = ranking(values);
  if (sampling.temperature == 0) return ids.front();
  if (sampling.top_k > 0)
    ids.resize(std::min(ids.size(), static_cast<std::size_t>(sampling.top_k)));
  std::vector<double> weights;
  double total = 0;
  for (std::int64_t id : ids) {
    const double above = values[id] - values[ids[0]];
    weights.push_back(std::exp(above / sampling.temperature));
    total += weights.back();
  }
  double kept = 0;
  std::size_t count = 0;
  while (count < ids.size() && (count == 0 || kept < sampling.top_p * total))
    kept += weights[count++];
  const std::uint64_t bits = mix(sampling.seed, static_cast<std::uint64_t>(index));
  const double drawn = static_cast<double>(bits >> 11) * 0x1p-53 * kept;
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) {
    sum += weights[i];
    if (drawn < sum) return ids[i];
  }
  return ids[count - 1];
}

std::vector<at::Tensor> values_of(const exec::Model& model, const std::vector<at::Tensor>& inputs,
                                  std::vector<exec::Past>* pasts) {
  const plan::Program& program = model.spec.program;
  at::NoGradGuard no_grad;
  std::vector<at::Tensor> values(inputs);  // inputs come first
  values.resize(program.values.size());
  exec::BlockContext at_node{.training = false};
  for (std::size_t node = 0; node < head_of(model).node; ++node) {
    if (program.nodes[node].loss) continue;
    at_node.node = static_cast<int>(node);
    if (pasts != nullptr) at_node.past = &(*pasts)[node];
    const std::vector<at::Tensor> written =
        model.blocks[node]->forward(read_by(program.nodes[node], values), at_node);
    for (std::size_t i = 0; i < written.size(); ++i)
      values[program.nodes[node].writes[i]] = written[i];
  }
  return values;
}

at::Tensor next_logits(const exec::Model& model, const std::vector<at::Tensor>& inputs) {
  return logits_of(model, values_of(model, inputs));
}

at::Tensor logits_of(const exec::Model& model, const std::vector<at::Tensor>& values) {
  at::NoGradGuard no_grad;
  const LanguageHead& head = *head_of(model).block;
  return head.logits(head.last_row(read_by_head(model, values)));
}

at::Tensor next_logits(const exec::Model& model, const std::vector<std::int64_t>& tokens,
                       std::int64_t context) {
  TRIREME_CHECK(!tokens.empty() && context > 0, "{} tokens, context {}", tokens.size(), context);
  const auto length = std::min(static_cast<std::int64_t>(tokens.size()), context);
  const at::Tensor x = at::empty({1, length}, at::TensorOptions().dtype(at::kLong));
  std::copy(tokens.end() - length, tokens.end(), x.data_ptr<std::int64_t>());
  return next_logits(model, {x, x});  // targets are read by the last node alone
}

double log_likelihood(const exec::Model& model, const std::vector<std::int64_t>& tokens,
                      std::size_t begin, std::int64_t context) {
  TRIREME_CHECK(begin > 0 && begin < tokens.size(), "token {} of {}", begin, tokens.size());
  const auto length = std::min(std::ssize(tokens) - 1, context);
  const std::int64_t left_out = std::ssize(tokens) - 1 - length;
  const std::int64_t first = static_cast<std::int64_t>(begin) - 1 - left_out;  // row before it
  if (first < 0)
    fail(ErrorKind::kData, "an answer of {} tokens is longer than model.seq_len={} of the model",
         tokens.size() - begin, context);
  at::NoGradGuard no_grad;
  const at::Tensor x = at::empty({1, length}, at::TensorOptions().dtype(at::kLong));
  std::copy_n(tokens.begin() + left_out, length, x.data_ptr<std::int64_t>());
  const std::vector<at::Tensor> values = values_of(model, {x, x});
  const at::Tensor rows = read_by_head(model, values)[0];
  const at::Tensor logs =
      at::log_softmax(
          head_of(model).block->logits(rows.narrow(1, first, length - first)).to(at::kDouble), -1)
          .contiguous();
  const std::int64_t vocab = logs.size(-1);
  double sum = 0;
  for (std::int64_t row = 0; row < length - first; ++row)
    sum += logs.data_ptr<double>()[row * vocab + tokens[begin + static_cast<std::size_t>(row)]];
  if (!std::isfinite(sum))
    fail(ErrorKind::kNonFinite, "a log-likelihood is {}: the checkpoint's weights are not usable",
         sum);
  return sum;
}

std::vector<double> token_log_probs(const exec::Model& model,
                                    const std::vector<std::int64_t>& tokens, std::size_t begin,
                                    std::int64_t row) {
  TRIREME_CHECK(begin > 0 && begin < tokens.size(), "token {} of {}", begin, tokens.size());
  const std::int64_t places = std::ssize(tokens) - 1;  // the last is only a target
  if (places > row)
    fail(ErrorKind::kData, "{} tokens are more than a row of model.seq_len={} and one", places + 1,
         row);
  const auto longs = at::TensorOptions().dtype(at::kLong);
  const at::Tensor x = at::zeros({1, row}, longs), positions = at::zeros({1, row}, longs);
  const at::Tensor targets = at::full({1, row}, ops::kNoTarget, longs);
  std::copy_n(tokens.begin(), places, x.data_ptr<std::int64_t>());
  std::copy(tokens.begin() + static_cast<std::ptrdiff_t>(begin), tokens.end(),
            targets.data_ptr<std::int64_t>() + begin - 1);
  auto* const position = positions.data_ptr<std::int64_t>();
  std::iota(position, position + places, 0);
  std::iota(position + places, position + row, 0);
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> values = values_of(model, {x, targets, positions});
  const std::size_t head = head_of(model).node;
  const at::Tensor losses =
      model.blocks[head]
          ->forward(read_by(model.spec.program.nodes[head], values), {.training = false})[0]
          .to(at::kCPU, at::kDouble)
          .contiguous();
  TRIREME_CHECK(losses.numel() == row, "{} losses of a row of {}", losses.numel(), row);
  std::vector<double> numbers;
  for (std::int64_t i = static_cast<std::int64_t>(begin) - 1; i < places; ++i) {
    numbers.push_back(-losses.data_ptr<double>()[i]);
    if (!std::isfinite(numbers.back()))
      fail(ErrorKind::kNonFinite,
           "a log-probability is {}: the checkpoint's weights are not usable", numbers.back());
  }
  return numbers;
}

at::Tensor GrowingText::next_logits(const std::vector<std::int64_t>& tokens) {
  TRIREME_CHECK(tokens.size() > read_, "{} tokens after {}", tokens.size(), read_);
  constexpr std::size_t kPart = 256;  // read at once: bounds the scores that a long prompt has
  std::vector<at::Tensor> values;
  while (read_ < tokens.size()) {
    const std::size_t count = std::min(kPart, tokens.size() - read_);
    const at::Tensor x = at::empty({1, static_cast<std::int64_t>(count)}, at::kLong);
    std::copy_n(tokens.begin() + static_cast<std::ptrdiff_t>(read_), count,
                x.data_ptr<std::int64_t>());
    values = values_of(model_, {x, x}, &pasts_);
    read_ += count;
  }
  return logits_of(model_, values);
}

std::vector<std::int64_t> generate(const exec::Model& model, const GenerateArgs& args) {
  if (args.prompt.empty())
    fail(ErrorKind::kUsage,
         "the prompt is empty; generation needs at least one token to start from");
  std::vector<std::int64_t> text = args.prompt;
  GrowingText growing(model);
  for (std::int64_t index = 0; index < args.max_tokens; ++index) {
    const bool grows = std::ssize(text) <= args.context;
    const at::Tensor logits =
        grows ? growing.next_logits(text) : next_logits(model, text, args.context);
    text.push_back(sample(logits, args.sampling, index));
    if (args.on_token && !args.on_token(text.back())) break;
  }
  return {text.begin() + static_cast<std::ptrdiff_t>(args.prompt.size()), text.end()};
}

}  // namespace trireme::blocks
