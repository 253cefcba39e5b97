#include "trireme/config/resolve/resolve_family.h"

#include <utility>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/head_width.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/resolve/resolve_conversations.h"
#include "trireme/config/rope.h"
#include "trireme/config/synthetic.h"

namespace trireme::config {
namespace {

// floor(8/3 hidden) rounded up to a multiple of 256 (the reference code of Llama).
std::int64_t swiglu_width(std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t two_thirds = 2 * (4 * hidden) / 3;
  return (two_thirds + kMultiple - 1) / kMultiple * kMultiple;
}

// The divisor of `whole` that is nearest to `wanted`.
std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wanted) {
  for (std::int64_t apart = 0; apart < whole; ++apart) {
    if (wanted - apart > 0 && whole % (wanted - apart) == 0) return wanted - apart;
    if (wanted + apart <= whole && whole % (wanted + apart) == 0) return wanted + apart;
  }
  return whole;
}

// Keys of Llama that others leave alone.
void check_plain_decoder(const Model& model) {
  const std::string_view family = name(model.family);
  if (model.kv_heads != model.heads)
    fail(ErrorKind::kUsage,
         "model.kv_heads={}: family {} has one key-value head per head; needs {} (or 0)",
         model.kv_heads, family, model.heads);
  if (model.head_dim != 0 || model.qkv_bias || model.qk_norm)
    fail(ErrorKind::kUsage,
         "model.head_dim={}, model.qkv_bias={}, model.qk_norm={}: family {} has heads of hidden / "
         "heads with biases and without norms; leave them out, or choose model.family=llama",
         model.head_dim, model.qkv_bias, model.qk_norm, family);
  if (traits(info(model.family).decoder).rotary) return;
  if (model.rope_theta != Model{}.rope_theta || !model.rope_scaling.empty())
    fail(ErrorKind::kUsage,
         "model.rope_theta={}, model.rope_scaling={}: family {} has no rotary positions; leave "
         "them out",
         model.rope_theta, model.rope_scaling, family);
  if (!model.attention_layers.empty())
    fail(ErrorKind::kUsage,
         "model.attention_layers={}: every layer of family {} attends to everything before; leave "
         "it out, or choose model.family=llama",
         model.attention_layers, family);
}

}  // namespace

void resolve_text(Job& job) {
  Data& data = job.data;
  if (reads_conversations(data.source)) return resolve_conversations(job);
  if (data.source == DataSource::kText) return;
  if (!is_text(data.source))
    fail(ErrorKind::kUsage,
         "data.source: family {} reads tokens; set data.source=text, chat, preferences, words or "
         "affine",
         name(job.model.family));
  if (!data.path.empty() || data.tokenizer != Data{}.tokenizer || data.documents)
    fail(ErrorKind::kUsage,
         "data.path={}, data.tokenizer={}, data.documents={}: synthetic text does not use them; "
         "leave them out, or set data.source=text",
         data.path, data.tokenizer, data.documents);
}

std::string nearest_multiples(std::string_view key, std::int64_t value, std::int64_t step) {
  const std::int64_t below = value / step * step;
  const std::string lower = below > 0 ? fmt::format("{}={} or ", key, below) : "";
  return fmt::format("{}{}={}", lower, key, below + step);
}

void resolve_vocab(Model& model, const DatasetFacts& data) {
  if (model.vocab == 0) model.vocab = data.vocab;
  if (model.vocab == 0)
    fail(ErrorKind::kUsage,
         "model.vocab=0 means the dataset's vocabulary, which is not known here; set model.vocab");
  if (model.vocab < data.vocab)
    fail(ErrorKind::kUsage,
         "model.vocab={} is smaller than the dataset's vocabulary of {}; set model.vocab={} (or 0)",
         model.vocab, data.vocab, data.vocab);
}

void resolve_decoder(Model& model, const DatasetFacts& data) {
  if (model.head_dim == 0 && model.hidden % model.heads != 0)
    fail(ErrorKind::kUsage,
         "model.hidden={} is not divisible by model.heads={}; nearest that work: model.heads={}, "
         "or {}",
         model.hidden, model.heads, nearest_divisor(model.hidden, model.heads),
         nearest_multiples("model.hidden", model.hidden, model.heads));
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.heads % model.kv_heads != 0)
    fail(ErrorKind::kUsage,
         "model.heads={} is not divisible by model.kv_heads={}; nearest that works: "
         "model.kv_heads={}",
         model.heads, model.kv_heads, nearest_divisor(model.heads, model.kv_heads));
  resolve_vocab(model, data);
  const DecoderTraits has = traits(info(model.family).decoder);
  const std::string_view family = name(model.family);
  if (model.ffn == 0) model.ffn = has.gated ? swiglu_width(model.hidden) : 4 * model.hidden;
  if (has.rotary && model.head_dim % 2 != 0)
    fail(ErrorKind::kUsage,
         "model.head_dim={} is odd; {} rotates pairs and needs an even one, such as {}",
         model.head_dim, family, model.head_dim + 1);
  if (has.rotary && head_width(model) % 2 != 0)
    fail(ErrorKind::kUsage,
         "model.hidden={} / model.heads={} = {} per head is odd; {} rotates pairs and needs an "
         "even one",
         model.hidden, model.heads, head_width(model), family);
  if (has.rotary && model.dropout != 0)
    fail(ErrorKind::kUsage, "model.dropout={}: family {} has no dropout; needs 0", model.dropout,
         family);
  if (!has.llama_keys) check_plain_decoder(model);
  model.attention_layers = print(layer_attention(model));
  model.rope_scaling = print(parse_rope_scaling(model.rope_scaling));
}

void check_idle_keys(const Job& job) {
  const Job plain;
  for (const Difference& key : diff(plain, job))
    if (!uses(job.model.family, key.key))
      fail(ErrorKind::kUsage, "{}={}: family {} does not use it; leave it out", key.key, key.after,
           name(job.model.family));
}

}  // namespace trireme::config
