#include "trireme/config/layer_attention.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

namespace trireme::config {
namespace {

constexpr std::string_view kFull = "full", kNoPositions = "nope", kSliding = "sliding:";
constexpr std::int64_t kMostLayers = 1 << 16, kWidestWindow = 1 << 28;

// A number from 1 to `most` that `text` begins with, and which leaves it.
std::optional<std::int64_t> take_number(std::string_view& text, std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 1 || value > most) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

std::optional<LayerAttention> parsed_layer(std::string_view text) {
  if (text == kFull) return LayerAttention{};
  if (text == kNoPositions) return LayerAttention{.rotary = false};
  if (!text.starts_with(kSliding)) return std::nullopt;
  text.remove_prefix(kSliding.size());
  const std::optional<std::int64_t> window = take_number(text, kWidestWindow);
  if (!window || !text.empty()) return std::nullopt;
  return LayerAttention{.window = *window};
}

std::string layer_text(const LayerAttention& layer) {
  if (layer.window > 0) return fmt::format("{}{}", kSliding, layer.window);
  return std::string(layer.rotary ? kFull : kNoPositions);
}

// After how many layers they repeat.
std::size_t repeats_after(const std::vector<LayerAttention>& layers) {
  for (std::size_t length = 1; length < layers.size(); ++length) {
    std::size_t same = length;
    while (same < layers.size() && layers[same] == layers[same - length]) ++same;
    if (same == layers.size()) return length;
  }
  return layers.size();
}

}  // namespace

std::vector<LayerAttention> layer_attention(const Model& model) {
  const auto layers = static_cast<std::size_t>(model.layers);
  std::vector<LayerAttention> given;
  if (model.attention_layers.empty()) return std::vector<LayerAttention>(layers);
  for (const std::string_view item : split_list(model.attention_layers)) {
    std::string_view rest = item;
    std::int64_t count = 1;
    if (const auto several = take_number(rest, kMostLayers); several && rest.starts_with('x')) {
      count = *several;
      rest.remove_prefix(1);
    } else {
      rest = item;
    }
    const std::optional<LayerAttention> layer = parsed_layer(rest);
    if (!layer)
      fail(ErrorKind::kUsage,
           "model.attention_layers={}: \"{}\" is no layer; needs full, nope or sliding:TOKENS, "
           "repeated as COUNTx, such as 3xsliding:4096,full",
           model.attention_layers, item);
    given.insert(given.end(), static_cast<std::size_t>(count), *layer);
  }
  std::vector<LayerAttention> all;
  while (all.size() < layers) all.push_back(given[all.size() % given.size()]);
  return all;
}

std::string print(const std::vector<LayerAttention>& layers) {
  if (layers == std::vector<LayerAttention>(layers.size())) return "";
  const std::size_t length = repeats_after(layers);
  std::string text;
  for (std::size_t first = 0, next = 0; first < length; first = next) {
    while (next < length && layers[next] == layers[first]) ++next;
    const std::string layer = layer_text(layers[first]);
    const std::string item = next - first > 1 ? fmt::format("{}x{}", next - first, layer) : layer;
    text += (text.empty() ? "" : ",") + item;
  }
  return text;
}

}  // namespace trireme::config
