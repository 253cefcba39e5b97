// Llama and the models that differ little from it.
#include <algorithm>

#include "trireme/base/error.h"
#include "trireme/config/layer_attention.h"
#include "trireme/config/resolve/resolve_family.h"

namespace trireme::config {

void resolve_llama(Job& job, const DatasetFacts& data) {
  resolve_decoder(job.model, data);
  const Llama& llama = job.llama;
  if (llama.whole_qk_norm && !job.model.qk_norm)
    fail(ErrorKind::kUsage,
         "llama.whole_qk_norm=true: says how queries and keys are normed, but model.qk_norm=false; "
         "set model.qk_norm=true, or leave it out");
  if (llama.whole_qk_norm && llama.gains_from_one)
    fail(ErrorKind::kUsage,
         "llama.whole_qk_norm=true, llama.gains_from_one=true: no model has both; leave one out");
  if (llama.sliding_theta == 0) return;
  if (llama.sliding_theta <= 1)
    fail(ErrorKind::kUsage,
         "llama.sliding_theta={}: is the base of rotary frequencies and must be above 1, such as "
         "10000; 0 is that of other layers",
         llama.sliding_theta);
  const std::vector<LayerAttention> layers = layer_attention(job.model);
  if (std::ranges::none_of(layers, [](const LayerAttention& layer) { return layer.window > 0; }))
    fail(ErrorKind::kUsage,
         "llama.sliding_theta={}: no layer has a window; give some one "
         "(model.attention_layers=5xsliding:512,full), or leave it out",
         llama.sliding_theta);
}

}  // namespace trireme::config
