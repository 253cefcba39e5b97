// Decoders, in every family that has one.
#include <cmath>

#include "trireme/base/error.h"
#include "trireme/config/families.h"
#include "trireme/config/head_width.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/rope.h"
#include "trireme/config/rules/shared_rules.h"
#include "trireme/config/rules/templates.h"

namespace trireme::config {
namespace {

// floor(8/3 hidden) rounded up to a multiple of 256 (the reference code of Llama).
std::int64_t swiglu_width(std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 256;
  const std::int64_t two_thirds = 2 * (4 * hidden) / 3;
  return (two_thirds + kMultiple - 1) / kMultiple * kMultiple;
}

const Decoder& blocks(const Job& job) { return info(job).decoder.value(); }
bool derives_width(const Job& job) { return job.model.head_dim == 0; }

void resolve_vocab(Job& job, const Given& given) {
  if (job.model.vocab == 0) job.model.vocab = given.data.vocab;
}
void check_vocab(const Job& job, const Given& given) {
  const std::int64_t vocab = job.model.vocab, data = given.data.vocab;
  if (vocab < data)
    fail(ErrorKind::kUsage,
         "model.vocab={} is smaller than the dataset's vocabulary of {}; set model.vocab={} (or 0)",
         vocab, data, data);
}

void resolve_ffn(Job& job, const Given&) {
  Model& model = job.model;
  if (model.ffn == 0) model.ffn = blocks(job).gated ? swiglu_width(model.hidden) : 4 * model.hidden;
}

void check_rope_scaling(const Job& job) {
  parse_rope_scaling(job.model.rope_scaling);
  if (blocks(job).rotary) rope_of(job.model, job.llama.rotary_fraction);
}

void print_lists(Job& job, const Given&) {
  job.model.attention_layers = print(layer_attention(job.model));
  job.model.rope_scaling = print(parse_rope_scaling(job.model.rope_scaling));
}

}  // namespace

void check_rotated(const Model& model, std::string_view key, double fraction) {
  const std::int64_t rotated = rotated_channels(model, fraction);
  if (rotated % 2 == 0) return;
  // The quotient may be a little less than these channels.
  double even = static_cast<double>(rotated + 1) / static_cast<double>(head_width(model));
  while (rotated_channels(model, even) == rotated) even = std::nextafter(even, 2.0);
  fail(ErrorKind::kUsage,
       "{}={} of {} channels a head are {}, which is odd; rotary positions turn pairs, so set "
       "{}={}",
       key, fraction, head_width(model), rotated, key, even);
}

std::vector<Rule> vocab_rules() {
  return {{"vocab",
           refused("model.vocab=0", "it means the dataset's vocabulary, which is not known here",
                   "set model.vocab"),
           nullptr, resolve_vocab},
          {.id = "data-vocab", .fits = check_vocab}};
}

std::vector<Rule> decoder_rules() {
  return {
      {"heads", multiple_of("model.hidden", "model.heads"), derives_width},
      {"kv-heads", multiple_of("model.heads", "model.kv_heads"), nullptr,
       [](Job& job, const Given&) {
         if (job.model.kv_heads == 0) job.model.kv_heads = job.model.heads;
       }},
      {.id = "ffn", .fill = resolve_ffn},
      {"head-dim", multiple_of("model.head_dim", 2, "as rotary positions turn pairs of channels"),
       [](const Job& job) { return blocks(job).rotary; }},
      {"head-width", turned_heads("model.hidden", "model.heads", {.least = 2}),
       [](const Job& job) { return blocks(job).rotary && derives_width(job); }},
      {"dropout", refused("model.dropout", "{model.family} has no dropout"),
       [](const Job& job) { return blocks(job).rotary; }},
      {"one-kv-head",
       equal_to("model.kv_heads", "model.heads", "{model.family} has one key-value head per head",
                "choose model.family=llama"),
       [](const Job& job) { return !blocks(job).llama_keys; }},
      {"attention-layers", [](const Job& job) { layer_attention(job.model); }},
      {"rope-scaling", check_rope_scaling},
      {.id = "lists", .fill = print_lists},
  };
}

std::vector<Rule> language_rules() { return joined({vocab_rules(), decoder_rules()}); }

}  // namespace trireme::config
