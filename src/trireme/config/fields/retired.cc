#include "trireme/config/fields/retired.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "trireme/base/error.h"
#include "trireme/config/values/yaml.h"

namespace trireme::config {
namespace {

struct Retired {
  std::string_view key;
  std::string_view value;                             // that holds now, as a job prints it
  std::string_view now = {};                          // new spelling; empty: fixed at `value`
  std::string (*resolved)(const Job& job) = nullptr;  // what a resolved job has in place of `value`
};

std::string rounding_of_master(const Job& job) {
  return job.precision.master == DType::kBF16 ? "stochastic" : "nearest";
}

std::string gradcache(const Job&) { return "gradcache"; }

std::string erased(const Job& job) { return job.probe.augment > 0 ? "0.25" : "0"; }

std::string initial_deviation(const Job& job) { return fmt::format("{}", job.model.init_std); }

constexpr std::array kRetired = {
    Retired{"jepa.short_blocks", "8", "it is part of jepa.masks, such as 8x0.15,2x0.7"},
    Retired{"jepa.short_scale", "0.15", "it is part of jepa.masks, such as 8x0.15,2x0.7"},
    Retired{"jepa.long_blocks", "2", "it is part of jepa.masks, such as 8x0.15,2x0.7"},
    Retired{"jepa.long_scale", "0.7", "it is part of jepa.masks, such as 8x0.15,2x0.7"},
    Retired{"chunk.ratio_weight", "0.1"},
    Retired{"chunk.neighbours", "8"},
    Retired{"vicreg.invariance", "25"},
    Retired{"vicreg.variance", "25"},
    Retired{"vicreg.covariance", "1"},
    Retired{"vicreg.alpha", "0.75"},
    Retired{"vicreg.matches", "20"},
    Retired{"arrcoc.temperature", "0.5"},
    Retired{"arrcoc.fovea", "[0.5, 0.5]"},
    Retired{"parallel.transfer", "0"},
    Retired{"parallel.prefetch", "1"},
    Retired{"precision.rounding", "auto",
            "it is fixed: stochastic for precision.master=bf16, else to nearest",
            rounding_of_master},
    Retired{"precision.loss_scale_start", "65536"},
    Retired{"precision.loss_scale_window", "1000"},
    Retired{"precision.loss_scale_factor", "2"},
    Retired{"precision.loss_scale_hysteresis", "2"},
    Retired{"precision.loss_scale_floor", "1"},
    Retired{"recompute.first", "0",
            "set recompute.policy=full and recompute.nodes to these blocks, such as block.[0-3]"},
    Retired{"recompute.every", "0", "set recompute.policy=full:BLOCKS"},
    Retired{"offload.prefetch", "1"},
    Retired{"offload.ratio", "1", "set offload.optimizer=host:SHARE or nvme:SHARE"},
    Retired{"network.back", "none", "it is the last part of network.codec, such as q4/q8"},
    Retired{"offload.engine", "auto",
            "it is fixed: io_uring where the disk works with it, else threads"},
    Retired{"run.find_micro_batch", "false", "set run.micro_batch=0"},
    Retired{"run.spike_limit", "3"},
    Retired{"run.hang_restart_s", "25"},
    Retired{"checkpoint.memory_distance", "1"},
    Retired{"run.spike_rewind", "100", "it is the second number of run.spikes"},
    Retired{"run.spike_skip", "200", "it is twice the second number of run.spikes"},
    Retired{
        "run.batch_scope", "micro",
        "it follows from run.micro_batch: gradcache where a rank has several micro-batches, with "
        "parallel.schedule=gpipe",
        gradcache},
    Retired{"parallel.schedule_file", "", "set parallel.schedule to the file, which ends in .csv"},
    Retired{"parallel.context_inner", "2", "set parallel.context=hierarchical:N"},
    Retired{"jepa.cut", "none", "set jepa.cut_batch to samples, such as 24"},
    Retired{"jepa.cut_samples", "24", "set jepa.cut_batch to it"},
    Retired{"action.size", "7"},
    Retired{"probe.crop", "0.08"},
    Retired{"probe.erase", "0", "it is 0.25 where probe.augment is above 0", erased},
    Retired{"arrcoc.allocation", "learned", "set arrcoc.scorers to uniform or random"},
    Retired{"arrcoc.learn_budget", "false",
            "set arrcoc.scorers to information,salience,coupling,budget"},
    Retired{"vision.init_std", "0.02", "set model.init_std, which holds for towers as well",
            initial_deviation},
    Retired{"vision.mean", "",
            "set vision.pixels to clip, siglip, imagenet or numbers such as "
            "0.5,0.5,0.5/0.25,0.25,0.25"},
    Retired{"vision.std", "",
            "set vision.pixels to clip, siglip, imagenet or numbers such as "
            "0.5,0.5,0.5/0.25,0.25,0.25"},
    Retired{"vicreg.width", "64",
            "set vicreg.widths to those of clips and chunks, such as [64, 64]"},
    Retired{"vicreg.local_width", "0",
            "set vicreg.widths to those of clips and chunks, such as [64, 64]"},
    Retired{"arrcoc.least", "8", "set arrcoc.sides to the minimum and maximum, such as [8, 20]"},
    Retired{"arrcoc.most", "20", "set arrcoc.sides to the minimum and maximum, such as [8, 20]"},
    Retired{"arrcoc.coupling", "0", "it is the first number of arrcoc.widths, such as [64, 0]"},
    Retired{"arrcoc.balancer", "0", "it is the second number of arrcoc.widths, such as [0, 40]"},
    Retired{"arrcoc.budget_weight", "0",
            "it is the first number of arrcoc.penalties, such as [0.1, 0]"},
    Retired{"arrcoc.entropy_weight", "0",
            "it is the second number of arrcoc.penalties, such as [0, 0.01]"},
    Retired{"probe.segments", "1", "it is the first number of probe.clips, such as [2, 1]"},
    Retired{"probe.views", "1", "it is the second number of probe.clips, such as [1, 3]"},
    Retired{"parallel.activation_limit", "1",
            "set parallel.schedule=zb_auto:LIMIT or v_auto:LIMIT"},
    Retired{"jepa.momentum_end", "-1",
            "it is the second number of jepa.momentum, such as [0.998, 1]"},
    Retired{"optim.weight_decay_end", "-1",
            "it is the second number of optim.weight_decay, such as [0.04, 0.4]"},
    Retired{"optim.wsd_decay_fraction", "0.1", "set optim.schedule=wsd:SHARE"},
    Retired{"run.spike_zscore", "0", "it is the first number of run.spikes, such as [10, 100]"},
    Retired{"run.spike_window", "100", "it is the second number of run.spikes, such as [10, 100]"},
    Retired{"checkpoint.keep_every", "0",
            "it is the first number of checkpoint.keep_also, such as [1000, 0]"},
    Retired{"checkpoint.keep_best", "0",
            "it is the second number of checkpoint.keep_also, such as [0, 2]"},
    Retired{"vlm.tie", "tall", "set vlm.fit=wide"},
    Retired{"vlm.aspect", "stretch", "set vlm.fit=pad"},
    Retired{"vlm.fusion", "tokens", "set vlm.cross to blocks and heads, such as [1, 8]"},
    Retired{"vlm.cross_every", "1", "set vlm.cross to blocks and heads, such as [4, 8]"},
    Retired{"vlm.cross_heads", "8", "set vlm.cross to blocks and heads, such as [4, 8]"},
};

struct OldSpelling {
  std::string_view key, value, now;
};

constexpr std::array kOldSpellings = {
    OldSpelling{"recompute.policy", "uniform",
                "it is recompute.policy=full:BLOCKS with the blocks of a segment"},
    OldSpelling{"recompute.policy", "block",
                "it is recompute.policy=full with recompute.nodes, such as block.[0-3]"},
    OldSpelling{"recompute.policy", "segments",
                "set recompute.policy=full:2, which needs less memory"},
};

const Retired* find_retired(std::string_view key) {
  const auto* const entry = std::ranges::find(kRetired, key, &Retired::key);
  return entry == kRetired.end() ? nullptr : entry;
}

std::optional<double> plain_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool same_value(std::string_view left, std::string_view right) {
  const std::optional<double> a = plain_number(left), b = plain_number(right);
  return a && b ? *a == *b : left == right;
}

std::string text_of_old(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kList) return node.text;
  std::string text = "[";
  for (const YamlNode& item : node.items)
    text += fmt::format("{}{}", text.size() > 1 ? ", " : "", item.text);
  return text + "]";
}

}  // namespace

std::optional<std::string> retired(std::string_view key) {
  const Retired* entry = find_retired(key);
  if (entry == nullptr) return std::nullopt;
  return entry->now.empty() ? fmt::format("it is fixed at {}", entry->value)
                            : std::string(entry->now);
}

std::optional<std::string> retired_value(std::string_view key, std::string_view value) {
  for (const OldSpelling& entry : kOldSpellings)
    if (entry.key == key && entry.value == value) return std::string(entry.now);
  return std::nullopt;
}

bool still_holds(const Job& job, std::string_view key, const YamlNode& value) {
  const Retired* entry = find_retired(key);
  if (entry == nullptr) return false;
  const std::string text = text_of_old(value);
  return same_value(text, entry->value) ||
         (entry->resolved != nullptr && same_value(text, entry->resolved(job)));
}

}  // namespace trireme::config
