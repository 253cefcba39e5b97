#include "trireme/config/resolve/outer_steps.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <tuple>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/comm/codec/codec.h"
#include "trireme/config/resolve/coded_sums.h"

namespace trireme::config {
namespace {

constexpr double kMostSteps = 1 << 20;
constexpr std::string_view kStreaming = "streaming", kDelayAuto = "delay:auto";

struct OuterSetting {
  std::string_view name;
  void (*set)(OuterSettings&, double);
  double least = 0, most = 0;
  bool whole = false;
};

constexpr std::array kOuterSettings = {
    OuterSetting{"islands", [](OuterSettings& to, double n) { to.islands = static_cast<int>(n); },
                 1, 1024, true},
    OuterSetting{"every",
                 [](OuterSettings& to, double n) { to.every = static_cast<std::int64_t>(n); }, 1,
                 kMostSteps, true},
    OuterSetting{"fragments",
                 [](OuterSettings& to, double n) { to.fragments = static_cast<int>(n); }, 1, 1024,
                 true},
    OuterSetting{"delay", [](OuterSettings& to, double n) { to.delay = static_cast<int>(n); }, 0,
                 kMostSteps, true},
    OuterSetting{"blend", [](OuterSettings& to, double x) { to.blend = x; }, 0, 1},
    OuterSetting{"lr", [](OuterSettings& to, double x) { to.lr = x; }, 0, 10},
    OuterSetting{"momentum", [](OuterSettings& to, double x) { to.momentum = x; }, 0, 1},
};

constexpr std::array<std::string_view, 3> kOuterTexts = {"codec", "back", "merge"};

class OuterReader {
 public:
  explicit OuterReader(const std::string& text) : text_(text) {}

  OuterSettings read() {
    OuterSettings settings;
    for (const std::string_view part : split_list(text_)) one(part, settings);
    if (settings.streaming && !is_set("delay")) settings.finds_delay = true;
    if (settings.finds_delay) settings.delay = 1;
    if (settings.delay > 0 && !is_set("blend")) settings.blend = 0.5;
    if (settings.delay > 0 && !is_set("lr")) settings.lr = 0.4;
    if (settings.delay == 0 && settings.blend > 0)
      refuse("blend needs a delay, such as delay:1; without it weights become the outer weights");
    if (settings.fragments > settings.every)
      refuse(fmt::format("{} fragments do not fit {} steps; lower fragments or raise every",
                         settings.fragments, settings.every));
    if (2 * std::int64_t{settings.delay} > settings.every)
      refuse(fmt::format("delay:{} is more than half of every:{}; lower it to {}", settings.delay,
                         settings.every, settings.every / 2));
    if (settings.finds_delay && settings.every < 3)
      refuse(fmt::format("delay:auto is below half of every:{}; raise it to 3", settings.every));
    check_codecs(settings);
    return settings;
  }

  // The text with the settings that `streaming` means, after read().
  std::string expanded(const OuterSettings& settings, std::int64_t layers) const {
    const std::int64_t fragments =
        std::min({std::max<std::int64_t>(6, layers / 3), layers, settings.every});
    std::vector<std::string> parts;
    for (const std::string_view part : split_list(text_))
      if (part != kStreaming) parts.emplace_back(part);
    const auto add = [&](std::string_view name, const std::string& value) {
      if (!is_set(name)) parts.push_back(fmt::format("{}:{}", name, value));
    };
    add("fragments", fmt::format("{}", fragments));
    add("delay", "auto");
    add("blend", "0.5");
    add("lr", "0.4");
    add("codec", "f4");
    add("back", "q8");
    return fmt::format("{}", fmt::join(parts, ","));
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fail(ErrorKind::kUsage, "network.outer={}: {}", text_, why);
  }
  bool is_set(std::string_view name) const { return std::ranges::find(set_, name) != set_.end(); }

  void one(std::string_view part, OuterSettings& settings) {
    const std::size_t colon = part.find(':');
    const std::string_view name = part.substr(0, colon);
    const std::string_view value = colon == part.npos ? std::string_view() : part.substr(colon + 1);
    const auto* const found = std::ranges::find(kOuterSettings, name, &OuterSetting::name);
    if (part != kStreaming && found == kOuterSettings.end() &&
        std::ranges::find(kOuterTexts, name) == kOuterTexts.end()) {
      std::vector<std::string_view> names;
      for (const OuterSetting& setting : kOuterSettings) names.push_back(setting.name);
      refuse(
          fmt::format("unknown setting \"{}\"; choose among {}, {}, streaming, as in "
                      "islands:2,every:30",
                      name, fmt::join(names, ", "), fmt::join(kOuterTexts, ", ")));
    }
    if (is_set(name)) refuse(fmt::format("{} is set twice; leave one out", name));
    set_.push_back(name);
    if ((name == "codec" || name == "back") && value.empty())
      refuse(fmt::format("{}: needs a codec, such as f4", name));
    if (name == "codec") {
      if (value.find('/') != value.npos)
        refuse(fmt::format("{}; give the way back as back:CODEC", part));
      const SumCodecs codecs = sum_codecs({.codec = std::string(value)});
      if (codecs.residuals > 0)
        refuse(fmt::format("{}: each island keeps one residual; leave their number out", part));
      settings.codec = codecs.codec;
      settings.residual = codecs.residual;
    } else if (name == "back") {
      settings.back = value;
    } else if (name == "merge") {
      if (value != "mean" && value != "direction")
        refuse(fmt::format("{}; choose merge:mean or merge:direction", part));
      settings.direction = value == "direction";
    } else if (part == kStreaming) {
      settings.streaming = true;
    } else if (part == kDelayAuto) {
      settings.finds_delay = true;
    } else {
      set_number(*found, part, value, settings);
    }
  }

  void set_number(const OuterSetting& setting, std::string_view part, std::string_view digits,
                  OuterSettings& settings) const {
    double number = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    const bool read =
        !digits.empty() && error == std::errc() && end == digits.data() + digits.size();
    if (!read || !(number >= setting.least && number <= setting.most) ||
        (setting.whole && number != std::floor(number)))
      refuse(fmt::format("{}; needs a {}number from {} to {}, as in {}:{}", part,
                         setting.whole ? "whole " : "", setting.least, setting.most, setting.name,
                         setting.whole ? 2 : 0.5));
    setting.set(settings, number);
  }

  void check_codecs(const OuterSettings& settings) const {
    const auto seen = [&](std::string_view name, const std::string& codec) {
      return fmt::format("network.outer={}: {}:{}", text_, name, codec);
    };
    if (settings.codec.empty()) {
      if (!settings.back.empty()) refuse("back needs a codec, such as codec:f4");
      return;
    }
    const codec::Codec codec = codec_of(settings.codec, seen("codec", settings.codec),
                                        ", also with the type of residuals, such as q4:bf16");
    if (codec::needs_residual(codec) && !settings.residual)
      refuse(
          fmt::format("codec {0} diverges without residuals; set codec:{0}:fp32", settings.codec));
    if (codec::is_integer(codec))
      refuse(
          fmt::format("codec:{} shares exponents among senders, which islands do not; choose "
                      "bf16, q8, q4 or f4",
                      settings.codec));
    if (codec::is_low_rank(codec))
      refuse(fmt::format(
          "codec:{} takes sums of gradients, not weights of islands; choose bf16, q8, q4 or f4",
          settings.codec));
    if (!settings.back.empty()) plain_codec(settings.back, seen("back", settings.back));
  }

  const std::string& text_;
  std::vector<std::string_view> set_;
};

}  // namespace

std::optional<OuterSettings> outer_settings(const Network& network) {
  if (network.outer == Network().outer) return std::nullopt;
  return OuterReader(network.outer).read();
}

bool finds_delay(const Network& network) {
  const std::optional<OuterSettings> outer = outer_settings(network);
  return outer && outer->finds_delay;
}

std::string with_delay(const Network& network, int delay) {
  std::string text;
  for (const std::string_view part : split_list(network.outer))
    if (part != kDelayAuto) text += fmt::format("{},", part);
  return fmt::format("{}delay:{}", text, delay);
}

void resolve_islands(Job& job) {
  const std::optional<OuterSettings> outer = outer_settings(job.network);
  if (!outer) return;
  if (outer->streaming) {
    OuterReader reader(job.network.outer);
    const OuterSettings settings = reader.read();
    job.network.outer = reader.expanded(settings, job.model.layers);
  }
  if (int& replicas = job.parallel.dp_replicate; replicas == Parallel().dp_replicate)
    replicas = outer->islands;
}

}  // namespace trireme::config
