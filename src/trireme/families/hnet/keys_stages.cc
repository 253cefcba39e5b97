#include "trireme/families/hnet/keys_stages.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/values/field.h"

namespace trireme::config {
namespace {

constexpr std::size_t kMostStages = 8;
constexpr std::int64_t kMostBlocks = 4096;  // of a stage's side
constexpr std::string_view kLetters = "mMtT";

[[noreturn]] void refuse_layout(const Hnet& hnet, const std::string& why) {
  fail(ErrorKind::kUsage,
       "hnet.layout={}: {}; a layout is BLOCKS,[INNER],BLOCKS, such as T2,[T3],T2 or "
       "m4,[T1m4,[T26],m4T1],m4, with letters m, M, t and T and a number after each",
       hnet.layout, why);
}

// "T1m4" as "Tmmmm".
std::string blocks_of(const Hnet& hnet, std::string_view text) {
  std::string blocks;
  if (text.empty()) refuse_layout(hnet, "a side of a stage has no block");
  const std::string whole(text);
  while (!text.empty()) {
    const char letter = text[0];
    std::int64_t count = 0;
    const auto [end, error] = std::from_chars(text.data() + 1, text.data() + text.size(), count);
    if (kLetters.find(letter) == kLetters.npos || error != std::errc())
      refuse_layout(hnet, fmt::format("\"{}\" is not a list of blocks", whole));
    if (count < 1 || count > kMostBlocks - static_cast<std::int64_t>(blocks.size()))
      refuse_layout(hnet,
                    fmt::format("\"{}\" is not a count from 1 to {} blocks", whole, kMostBlocks));
    blocks.append(static_cast<std::size_t>(count), letter);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  return blocks;
}

std::vector<HnetStage> blocks_of_stages(const Hnet& hnet) {
  std::vector<HnetStage> stages;
  std::string_view text = hnet.layout;
  for (std::size_t open = text.find('['); open != text.npos; open = text.find('[')) {
    const std::size_t close = text.rfind(']');
    if (close == text.npos || close < open) refuse_layout(hnet, "a bracket is not closed");
    const std::string_view before = text.substr(0, open), behind = text.substr(close + 1);
    if (!before.ends_with(',') || !behind.starts_with(','))
      refuse_layout(hnet, "brackets need a comma before and after them");
    if (stages.size() + 1 == kMostStages)
      refuse_layout(hnet, fmt::format("more than {} stages", kMostStages));
    stages.push_back({.encoder = blocks_of(hnet, before.substr(0, before.size() - 1)),
                      .decoder = blocks_of(hnet, behind.substr(1))});
    text = text.substr(open + 1, close - open - 1);
  }
  if (stages.empty()) refuse_layout(hnet, "no stage is inside of brackets");
  stages.push_back({.encoder = blocks_of(hnet, text), .decoder = {}});
  return stages;
}

// One number for each of so many stages.
std::vector<double> numbers(std::string_view key, const std::string& list, std::size_t count,
                            Range range, bool whole) {
  std::vector<double> values;
  for (const std::string_view piece : split_list(list)) {
    double value = 0;
    const auto [end, error] = std::from_chars(piece.data(), piece.data() + piece.size(), value);
    const bool number = error == std::errc() && end == piece.data() + piece.size();
    if (!number || !(value >= range.min) || !(value <= range.max) ||
        (whole && value != std::floor(value)))
      fail(ErrorKind::kUsage, "hnet.{}={}: \"{}\" is not a {} from {} to {}", key, list, piece,
           whole ? "whole number" : "number", range.min, range.max);
    values.push_back(value);
  }
  if (values.size() != count)
    fail(ErrorKind::kUsage,
         "hnet.{}={} has {} entries, but hnet.layout needs {}: {} from the outermost stage on", key,
         list, values.size(), count,
         key == "ratio" ? "one for each stage but the innermost" : "one for each stage");
  return values;
}

void check_stage(const HnetStage& stage, std::size_t s) {
  const bool attends = stage.has('t') || stage.has('T');
  const bool feeds = stage.has('T') || stage.has('M');
  const auto fails = [&](const std::string& why) {
    fail(ErrorKind::kUsage, "hnet: stage {} {}", s, why);
  };
  if (attends && stage.hidden % (4 * stage.heads) != 0)
    fails(
        fmt::format("of hidden={} and heads={}: half of a head is rotated in pairs, so hidden "
                    "must be divisible by 4 x heads; nearest that work: {} and {}",
                    stage.hidden, stage.heads,
                    std::max(std::int64_t{1}, stage.hidden / (4 * stage.heads)) * 4 * stage.heads,
                    (stage.hidden / (4 * stage.heads) + 1) * 4 * stage.heads));
  if ((stage.has('m') || stage.has('M')) && stage.hidden % 32 != 0)
    fails(
        fmt::format("of hidden={}: Mamba-2 has heads of 64 in twice the width; hidden must be "
                    "divisible by 32",
                    stage.hidden));
  if (feeds && stage.ffn == 0)
    fails("has blocks T or M, whose feed-forward layer needs a width: set hnet.ffn");
  if (!feeds && stage.ffn != 0)
    fails(fmt::format(
        "of blocks t and m alone does not use ffn={}; set that entry of hnet.ffn to 0", stage.ffn));
}

}  // namespace

std::int64_t HnetStage::writes() const {
  std::int64_t count = 0;
  for (const std::string* side : {&encoder, &decoder})
    for (const char letter : *side) count += letter == 'T' || letter == 'M' ? 2 : 1;
  return count;
}

std::vector<HnetStage> hnet_stages(const Hnet& hnet) {
  std::vector<HnetStage> stages = blocks_of_stages(hnet);
  const std::size_t count = stages.size();
  const auto hidden = numbers("hidden", hnet.hidden, count, {1, 1 << 20}, true);
  const auto heads = numbers("heads", hnet.heads, count, {1, 1 << 16}, true);
  const auto ffn = numbers("ffn", hnet.ffn, count, {0, 1 << 24}, true);
  const auto ratio = numbers("ratio", hnet.ratio, count - 1, {1.001, 1e6}, false);
  std::vector<double> lr(count, 1);
  if (!hnet.lr.empty()) lr = numbers("lr", hnet.lr, count, {0, 1e3}, false);
  std::vector<double> window(count, -1);
  if (!hnet.window.empty()) window = numbers("window", hnet.window, count, {-1, 1 << 30}, true);
  for (std::size_t s = 0; s < count; ++s) {
    HnetStage& stage = stages[s];
    stage.hidden = static_cast<std::int64_t>(hidden[s]);
    stage.heads = static_cast<std::int64_t>(heads[s]);
    stage.ffn = static_cast<std::int64_t>(ffn[s]);
    stage.window = static_cast<std::int64_t>(window[s]);
    stage.ratio = s + 1 < count ? ratio[s] : 0;
    stage.lr = lr[s];
    if (s > 0 && stage.hidden < stages[s - 1].hidden)
      fail(ErrorKind::kUsage,
           "hnet.hidden={}: stage {} is narrower than the one around it; widths may not decrease "
           "inwards",
           hnet.hidden, s);
    check_stage(stage, s);
  }
  return stages;
}

}  // namespace trireme::config
