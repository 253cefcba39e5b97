#include "trireme/model/training.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::model {

Training::Training(const config::Model& model, const config::Lora& lora)
    : lora_(lora), named_(lora.rank > 0 ? lora.also : model.frozen) {}

bool Training::trains(const std::string& unit) const {
  const std::vector<std::string_view> patterns = split_list(named_);
  const bool named = std::ranges::any_of(
      patterns, [&](std::string_view pattern) { return matches(pattern, unit); });
  return named == (lora_.rank > 0);
}

std::vector<int> Training::adapted_attention(const std::vector<int>& layers) const {
  if (lora_.rank == 0 || lora_.targets == config::LoraTargets::kMlp) return {};
  if (lora_.targets != config::LoraTargets::kQueryValue) return layers;
  TRIREME_CHECK(layers.size() == 4, "{} layers of attention, none of them the values' alone",
                layers.size());
  return {layers[0], layers[2]};
}

std::vector<int> Training::adapted_mlp(const std::vector<int>& layers) const {
  const bool has =
      lora_.targets == config::LoraTargets::kAll || lora_.targets == config::LoraTargets::kMlp;
  return lora_.rank > 0 && has ? layers : std::vector<int>{};
}

void Training::check(const std::vector<std::string>& units) const {
  if (!named_.empty()) select(lora_.rank > 0 ? "lora.also" : "model.frozen", named_, units);
  if (lora_.rank == 0 &&
      std::ranges::none_of(units, [&](const std::string& unit) { return trains(unit); }))
    fail(ErrorKind::kUsage,
         "model.frozen={} freezes every unit ({}), so nothing would train; leave one out of it",
         named_, fmt::join(units, ", "));
}

std::vector<ParamSpec> Training::adapter_params(const ParamSpec& weight, const Cut& whole) const {
  const std::size_t last = weight.name.rfind('.');
  const std::string layer = weight.name.substr(0, last), word = weight.name.substr(last);
  const bool by_outputs = weight.cut.dim == 0;
  const Cut part{.partial = true};
  const std::int64_t out = weight.shape[0], in = weight.shape[1];
  std::vector<ParamSpec> params = {
      {.name = layer + ".lora_A" + word,
       .shape = {lora_.rank, in},
       .init = {.kind = Init::Kind::kNormal, .std = 1 / std::sqrt(static_cast<double>(in))},
       .cut = by_outputs ? part : weight.cut},
      {.name = layer + ".lora_B" + word,
       .shape = {out, lora_.rank},
       .init = {.kind = Init::Kind::kZeros},
       .cut = by_outputs ? weight.cut : part}};
  if (lora_.dora)
    params.push_back({.name = layer + ".lora_magnitude_vector" + word,
                      .shape = {out},
                      .decay = 0,
                      .cut = by_outputs ? weight.cut : whole,
                      .norms_of = std::make_shared<const ParamSpec>(weight)});
  return params;
}

}  // namespace trireme::model
