#include "trireme/config/pixels.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"

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

[[noreturn]] void refuse_colours(std::string_view key, std::string_view text,
                                 std::string_view range) {
  fail(ErrorKind::kUsage,
       "{}={}: needs clip, siglip, imagenet or three numbers {} with commas between them, such as "
       "0.5,0.5,0.5",
       key, text, range);
}

// A name or three numbers; `above_zero` excludes 0.
Colours colours_of(std::string_view key, const std::string& text, Colours PixelScale::*part,
                   bool above_zero) {
  for (const PublishedScale& published : kPublishedScales)
    if (text == published.name) return published.scale.*part;
  const std::string_view range = above_zero ? "above 0 and up to 1" : "from 0 to 1";
  const std::vector<std::string_view> pieces = split_list(text);
  Colours colours{};
  if (pieces.size() != colours.size()) refuse_colours(key, text, range);
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const char* const end = pieces[i].data() + pieces[i].size();
    const auto [at, error] = std::from_chars(pieces[i].data(), end, colours[i]);
    if (error != std::errc() || at != end || !(colours[i] >= 0 && colours[i] <= 1) ||
        (above_zero && colours[i] == 0))
      refuse_colours(key, text, range);
  }
  return colours;
}

std::string written(const Colours& colours, Colours PixelScale::*part) {
  for (const PublishedScale& published : kPublishedScales)
    if (colours == published.scale.*part) return std::string(published.name);
  return fmt::format("{},{},{}", colours[0], colours[1], colours[2]);
}

}  // namespace

PixelScale pixel_scale(const Job& job) {
  const bool tiles = job.model.family == Family::kVlm && job.vlm.tower == VlmTower::kVit;
  const std::string otherwise = tiles ? "siglip" : "imagenet";
  const auto given = [&](const std::string& text) { return text.empty() ? otherwise : text; };
  return {.mean = colours_of("vision.mean", given(job.vision.mean), &PixelScale::mean, false),
          .std = colours_of("vision.std", given(job.vision.std), &PixelScale::std, true)};
}

std::string written_mean(const std::array<double, 3>& mean) {
  return written(mean, &PixelScale::mean);
}

std::string written_std(const std::array<double, 3>& std) { return written(std, &PixelScale::std); }

}  // namespace trireme::config
