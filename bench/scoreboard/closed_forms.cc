#include "bench/scoreboard/closed_forms.h"

#include "trireme/base/error.h"

namespace trireme::scoreboard {

double zero_model_states(double parameters, int stage, double ranks) {
  TRIREME_CHECK(stage >= 0 && stage <= 3 && ranks >= 1, "ZeRO stage {} on {} ranks", stage, ranks);
  const double states = 12 / (stage >= 1 ? ranks : 1);
  const double gradients = 2 / (stage >= 2 ? ranks : 1);
  const double weights = 2 / (stage >= 3 ? ranks : 1);
  return parameters * (weights + gradients + states);
}

double gpt_parameters(const GptShape& gpt) {
  const auto& [layers, h, heads, s, v] = gpt;
  return 12 * layers * h * h * (1 + 13 / (12 * h) + (v + s) / (12 * layers * h));
}

double gpt_model_flops(const GptShape& gpt, double batch) {
  const auto& [layers, h, heads, s, v] = gpt;
  return 72 * batch * layers * s * h * h * (1 + s / (6 * h) + v / (12 * h * layers));
}

double gpt_selective_flops(const GptShape& gpt, double batch) {
  const auto& [layers, h, heads, s, v] = gpt;
  return 72 * batch * layers * s * h * h * (1 + s / (3 * h) + v / (12 * h * layers));
}

double gpt_full_flops(const GptShape& gpt, double batch) {
  const auto& [layers, h, heads, s, v] = gpt;
  return 96 * batch * s * layers * h * h * (1 + s / (6 * h) + v / (16 * layers * h));
}

double block_activations(const GptShape& gpt, double micro_batch, double tp, bool sequence_parallel,
                         Kept kept) {
  const double sbh = gpt.sequence * micro_batch * gpt.hidden;
  if (kept == Kept::kInput) return 2 * sbh;
  const double whole = 10 / (sequence_parallel ? tp : 1);
  const double scores = kept == Kept::kAll ? 5 * gpt.heads * gpt.sequence / gpt.hidden : 0;
  return sbh * (whole + (24 + scores) / tp);
}

double first_rank_share(double pp, double chunks) {
  return chunks > 1 ? 1 + (pp - 1) / (pp * chunks) : 1;
}

double zero_traffic(int stage) { return stage == 3 ? 3 : 2; }

double zero_pp_traffic() {
  const double forward = 8.0 / 16, backward = 0, gradients = 4.0 / 16;
  return forward + backward + gradients;
}

double one_f_one_b_bubble(double pp, double micro_batches) {
  return (pp - 1) / (micro_batches + pp - 1);
}

double ring_attention_block(double flops, double bytes_per_second) {
  return flops / bytes_per_second;
}

double helped_ring_speedup(int ranks) {
  const int turns = ranks / 2;
  return 0.5 * ranks * ranks / (0.5 + turns);
}

}  // namespace trireme::scoreboard
