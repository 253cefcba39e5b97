#include "trireme/config/pixels.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/families.h"

namespace trireme::config {
namespace {

using Colours = std::array<double, 3>;

struct PublishedScale {
  std::string_view name;
  PixelScale scale;
};

constexpr std::array kPublishedScales = {
    PublishedScale{
        "clip",
        {.mean = {0.48145466, 0.4578275, 0.40821073}, .std = {0.26862954, 0.26130258, 0.27577711}}},
    PublishedScale{"siglip", {.mean = {0.5, 0.5, 0.5}, .std = {0.5, 0.5, 0.5}}},
    PublishedScale{"imagenet", {.mean = {0.485, 0.456, 0.406}, .std = {0.229, 0.224, 0.225}}},
};

// Three numbers, above 0 if `above_zero`; nothing where the text is not that.
std::optional<Colours> colours_of(std::string_view text, bool above_zero) {
  const std::vector<std::string_view> pieces = split_list(text);
  Colours colours{};
  if (pieces.size() != colours.size()) return std::nullopt;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const char* const end = pieces[i].data() + pieces[i].size();
    const auto [at, error] = std::from_chars(pieces[i].data(), end, colours[i]);
    if (error != std::errc() || at != end || !(colours[i] >= 0 && colours[i] <= 1) ||
        (above_zero && colours[i] == 0))
      return std::nullopt;
  }
  return colours;
}

}  // namespace

PixelScale pixel_scale(const Job& job) {
  const bool tiles = info(job).pictures == Pictures::kTiles && job.vlm.tower == VlmTower::kVit;
  const std::string text = !job.vision.pixels.empty() ? job.vision.pixels
                           : tiles                    ? "siglip"
                                                      : "imagenet";
  for (const PublishedScale& published : kPublishedScales)
    if (text == published.name) return published.scale;
  const std::string_view both = text;
  const std::size_t slash = both.find('/');
  const auto mean = colours_of(both.substr(0, slash), false);
  const auto std = slash == both.npos ? std::nullopt : colours_of(both.substr(slash + 1), true);
  if (!mean || !std)
    fail(ErrorKind::kUsage,
         "vision.pixels={}: needs clip, siglip, imagenet or three means from 0 to 1 and three "
         "deviations above 0 up to 1, such as 0.5,0.5,0.5/0.25,0.25,0.25",
         text);
  return {.mean = *mean, .std = *std};
}

std::string written(const PixelScale& scale) {
  for (const PublishedScale& published : kPublishedScales)
    if (scale == published.scale) return std::string(published.name);
  const auto& [mean, std] = scale;
  return fmt::format("{},{},{}/{},{},{}", mean[0], mean[1], mean[2], std[0], std[1], std[2]);
}

}  // namespace trireme::config
