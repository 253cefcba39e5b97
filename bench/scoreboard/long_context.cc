// Sequences over many devices: what follows from closed forms, of Ring Attention (Liu et al. 2023, arXiv 2310.01889,
// tables 2 and 3).
#include <fmt/core.h>

#include "bench/scoreboard/attention_rings.h"
#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/context_ratios.h"
#include "bench/scoreboard/registry.h"

namespace trireme::scoreboard {
namespace {

// The number before " UNIT" in "A100 InfiniBand: 312 TFLOP/s, 12.5 GB/s".
std::optional<double> before(const std::string& text, const std::string& unit) {
  const std::size_t end = text.find(" " + unit);
  if (end == std::string::npos || end == 0) return {};
  const std::size_t space = text.find_last_of(' ', end - 1);
  const std::size_t begin = space == std::string::npos ? 0 : space + 1;
  return number_of(std::string_view(text).substr(begin, end - begin));
}

// The least tokens of a device: six blocks.
Case overlap_limit(const Csv& csv, std::size_t row) {
  const std::string& setup = csv.text(row, "setup");
  const auto teraflops = before(setup, "TFLOP/s"), gigabytes = before(setup, "GB/s");
  Case one{.row = setup, .quantity = "overlap limit", .unit = "K tokens"};
  if (!teraflops || !gigabytes || *gigabytes <= 0) {
    one.unscored = "no TFLOP/s and GB/s in its setup";
    return one;
  }
  const double block = ring_attention_block(*teraflops * 1e12, *gigabytes * 1e9) / 1000;
  one.measured = csv.need(row, "value");
  one.forecast = as_printed(6 * block, csv.text(row, "value"));
  return one;
}

// Devices that share a sequence: the TPUs of a name count two cores a chip.
double devices(const Csv& csv, std::size_t row) {
  return csv.need(row, "gpus") / (csv.text(row, "setup").starts_with("TPU") ? 2 : 1);
}

// Blockwise attention and feed-forward on one device leave a block's input and output; a ring of devices spreads these,
// so that its context is theirs times the devices (section 3 and table 1 there).
Case largest_context(const Csv& csv, std::size_t row) {
  const std::string &setup = csv.text(row, "setup"), &method = csv.text(row, "method");
  Case one{.row = method + ", " + setup,
           .quantity = "largest context",
           .unit = "K tokens",
           .group = setup,
           .measured = csv.need(row, "value")};
  if (method != "ring attention") {
    one.unscored = "memory of a framework whose kernels and precision are not told";
    return one;
  }
  one.unscored = "no row of blockwise attention and feed-forward in the same setup";
  for (std::size_t other = 0; other < csv.size(); ++other)
    if (csv.text(other, "setup") == setup &&
        csv.text(other, "method") == "memory-efficient attention and FFN") {
      one.unscored.clear();
      one.forecast = csv.need(other, "value") * devices(csv, row);
    }
  return one;
}

// Of DistFlashAttn's steps see step_time.cc.
std::vector<Case> long_context_cases(const Csv& csv) {
  std::vector<Case> all = attention_ring_cases(csv);
  for (Case& one : context_ratio_cases(csv)) all.push_back(std::move(one));
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& experiment = csv.text(row, "experiment");
    const bool limit = experiment.starts_with("Ring Attention Table 2");
    if (!limit && !experiment.starts_with("Ring Attention Table 3")) continue;
    all.push_back(limit ? overlap_limit(csv, row) : largest_context(csv, row));
    all.back().lines = {csv.line(row)};
  }
  return all;
}

}  // namespace

Table long_context_table() {
  return {.name = "cp_long_context",
          .abilities = {{.quantity = "overlap limit", .bar = {.largest = 0}},
                        {.quantity = "largest context",
                         .measure = Measure::kDoublings,
                         .bar = {.largest = 0.5}},
                        {.quantity = "attention, of ideal",
                         .bar = {.mape = 8},
                         .null = "what the rank with most computes"},
                        {.quantity = "speedup by cp",
                         .bar = {.mape = 8},
                         .null = "computing all again costs a third"},
                        {.quantity = "headline"}},
          .cases = long_context_cases};
}

}  // namespace trireme::scoreboard
