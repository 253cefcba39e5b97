#include "trireme/model/token_sharing.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "trireme/config/layer_attention.h"
#include "trireme/model/account/per_rank.h"

namespace trireme::model {

mesh::BalancedLayout token_layout(const config::Job& job, std::span<const std::int64_t> places) {
  std::map<std::int64_t, std::int64_t> layers;  // by the most tokens that they see
  for (const config::LayerAttention& layer : config::layer_attention(job.model))
    ++layers[layer.window > 0 ? layer.window : job.model.seq_len];
  const auto tokens = static_cast<std::size_t>(job.model.seq_len);
  std::vector<std::int64_t> scores(tokens);
  for (const auto& [most, count] : layers)
    for (std::size_t i = 0; i < places.size(); ++i)
      scores[i % tokens] += count * std::min(places[i] + 1, most);
  return mesh::balanced(scores, job.parallel.cp, per_rank(job).exchanging());
}

mesh::BalancedLayout token_layout(const config::Job& job) {
  std::vector<std::int64_t> places(static_cast<std::size_t>(job.model.seq_len));
  std::iota(places.begin(), places.end(), 0);
  return token_layout(job, places);
}

}  // namespace trireme::model
