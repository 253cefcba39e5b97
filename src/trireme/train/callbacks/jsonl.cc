#include "trireme/train/callbacks/jsonl.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "trireme/base/append_file.h"
#include "trireme/base/json.h"

namespace trireme::train {
namespace {

std::string exact(double value) {
  return std::isfinite(value) ? fmt::format("{:.17g}", value) : "null";
}

// Seconds since 1970, to the millisecond.
std::string stamp(double time) { return fmt::format("{:.3f}", time); }

std::string rounded(double value) {
  return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

// Of a model's own, by name, and the keys that lines have of every model.
using OwnMetrics = std::vector<std::pair<std::string, double>>;
using KeyNames = std::vector<std::string_view>;

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : std::nan("");
}

std::int64_t whole(const Json& object, const char* key) {
  const double value = number(object, key);
  return std::isfinite(value) ? static_cast<std::int64_t>(value) : 0;
}

// Metrics of the model's own: whatever other numbers a line has that begin with `prefix`.
OwnMetrics own_metrics(const Json& object, std::string_view prefix, const KeyNames& known) {
  OwnMetrics metrics;
  for (const auto& [key, value] : object.items())
    if (value.is_number() && key.starts_with(prefix) &&
        std::ranges::find(known, key) == known.end())
      metrics.emplace_back(key.substr(prefix.size()), value.get<double>());
  return metrics;
}

EvalMetrics eval_of(const Json& line) {
  static const KeyNames kKnown = {"step",       "time", "val_loss", "val_bits_per_byte",
                                  "val_tokens", "val_s"};
  return {.step = line["step"].get<std::int64_t>(),
          .loss = number(line, "val_loss"),
          .bits_per_byte = number(line, "val_bits_per_byte"),
          .metrics = own_metrics(line, "val_", kKnown),
          .tokens = whole(line, "val_tokens"),
          .seconds = number(line, "val_s"),
          .time = number(line, "time")};
}

StepMetrics step_of(const Json& line) {
  static const KeyNames kKnown = {
      "step",      "time", "loss",   "grad_norm", "lr",           "tokens",       "tokens_per_s",
      "step_ms",   "mfu",  "rss_mb", "peak_mb",   "comm_wait_ms", "data_wait_ms", "offload_wait_ms",
      "loss_scale"};
  return {.step = line["step"].get<std::int64_t>(),
          .loss = number(line, "loss"),
          .grad_norm = number(line, "grad_norm"),
          .lr = number(line, "lr"),
          .loss_scale = number(line, "loss_scale"),
          .skipped = line.value("skipped", Json()) == true,
          .metrics = own_metrics(line, "", kKnown),
          .tokens = whole(line, "tokens"),
          .tokens_per_s = number(line, "tokens_per_s"),
          .step_ms = number(line, "step_ms"),
          .mfu = number(line, "mfu"),
          .rss_mb = number(line, "rss_mb"),
          .peak_mb = number(line, "peak_mb"),
          .comm_wait_ms = number(line, "comm_wait_ms"),
          .data_wait_ms = number(line, "data_wait_ms"),
          .offload_wait_ms = number(line, "offload_wait_ms"),
          .time = number(line, "time")};
}

void read_line(std::string_view line, std::int64_t last_step, History& history) {
  const Json object = Json::parse(line, nullptr, false);
  if (!object.is_object() || !object.contains("step") || !object["step"].is_number_integer())
    return;
  if (object["step"].get<std::int64_t>() > last_step) return;
  if (object.contains("val_loss"))
    history.evals.push_back(eval_of(object));
  else
    history.steps.push_back(step_of(object));
  history.text.append(line).append("\n");
}

// Further entries of an object.
template <typename Metrics>
std::string own_entries(std::string_view prefix, const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format(R"(,"{}{}":{})", prefix, name, exact(value));
  return text;
}

class Jsonl final : public Callback {
 public:
  void on_start(const RunInfo& info) override {
    path_ = info.out / kMetricsName;
    last_lines_ = info.out / kLastLinesName;
    events_ = info.out / formats::kEventsName;
    info_ = info;
    on_rewind(info.first_step);
    tell_missing(info.first_step);
  }
  void on_rewind(std::int64_t step) override {
    file_.reset();
    // Removed lines are at the end, where a full disk is no obstacle.
    const History history = repaired(read_history(path_, step), step);
    const std::string& text = history.text;
    if (std::filesystem::exists(path_) && read_file(path_).starts_with(text))
      std::filesystem::resize_file(path_, text.size());
    else
      replace_file(path_, text);
    file_.emplace(path_);
    newest_.clear();
  }
  void on_step(const StepMetrics& metrics) override {
    newest_.clear();
    add(jsonl_line(metrics, info_));
  }
  void on_eval(const EvalMetrics& metrics) override { add(jsonl_line(metrics, info_)); }
  void before_checkpoint() override {
    file_->finish();
    // A copy: if the disk has no space for it, the lines themselves still exist.
    std::ofstream(last_lines_, std::ios::trunc) << newest_;
  }
  void on_end(const RunEnd&) override { file_->finish(); }
  void on_fault(const formats::Event& fault) override {
    std::ofstream file(events_, std::ios::app);
    // If a full disk is the fault, the run continues without the line.
    file << formats::event_line(fault, std::chrono::system_clock::now()) + "\n" << std::flush;
  }
  void on_checkpoint(const CheckpointMetrics& m) override {
    if (m.directory.empty())
      on_fault({.kind = "checkpoint not written",
                .step = m.step,
                .op = "checkpoint",
                .cause = m.problem,
                .action = "continue",
                .lost_s = m.standing_s});
  }

 private:
  // On a full disk lines wait, and the run continues.
  void add(const std::string& line) {
    newest_ += line + "\n";
    file_->add(line + "\n");
  }

  // With the lines of `step` that are missing at its end.
  History repaired(History history, std::int64_t step) const {
    const History last = read_history(last_lines_, step);
    if (last.text.empty() || history.text.ends_with(last.text)) return history;
    if (last.steps.empty() || last.steps.front().step != step) return history;
    const std::string begun = history.text;
    for (std::string_view rest = last.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n') + 1);
      if (begun.find(line) == std::string::npos)
        read_line(line.substr(0, line.size() - 1), step, history);
      rest.remove_prefix(line.size());
    }
    return history;
  }

  void tell_missing(std::int64_t step) {
    const History history = read_history(path_, step);
    if (history.steps.empty()) return;
    const std::int64_t first = history.steps.front().step;
    const auto missing = step - first + 1 - std::ssize(history.steps);
    if (missing <= 0) return;
    on_fault({.kind = "metrics lost",
              .step = step,
              .op = "resume",
              .cause = fmt::format("{} has {} of the steps {} to {}: lines were damaged or removed",
                                   path_.string(), history.steps.size(), first, step),
              .action = "continue"});
  }

  Path path_;
  Path last_lines_;
  std::string newest_;  // lines of the newest step
  Path events_;
  RunInfo info_;
  std::optional<AppendFile> file_;
};

}  // namespace

std::string jsonl_line(const StepMetrics& m, const RunInfo& info) {
  const std::string mfu = m.mfu > 0 ? fmt::format(R"("mfu":{},)", rounded(m.mfu)) : "";
  return fmt::format(
      R"({{"step":{},"time":{},"loss":{},"loss_unit":{},"grad_norm":{},"lr":{},"tokens":{},)"
      R"("tokens_per_s":{},"step_ms":{},{}"mfu_convention":{},"rss_mb":{},"peak_mb":{},)"
      R"("comm_wait_ms":{},"data_wait_ms":{},"offload_wait_ms":{},"loss_scale":{},"skipped":{}{}}})",
      m.step, stamp(m.time), exact(m.loss), Json(info.loss.unit).dump(), exact(m.grad_norm),
      exact(m.lr), m.tokens, rounded(m.tokens_per_s), rounded(m.step_ms), mfu,
      Json(info.mfu_convention).dump(), rounded(m.rss_mb), rounded(m.peak_mb),
      rounded(m.comm_wait_ms), rounded(m.data_wait_ms), rounded(m.offload_wait_ms),
      exact(m.loss_scale), m.skipped, own_entries("", m.metrics));
}

std::string jsonl_line(const EvalMetrics& m, const RunInfo& info) {
  const std::string bits =
      m.bits_per_byte > 0 ? fmt::format(R"(,"val_bits_per_byte":{})", exact(m.bits_per_byte)) : "";
  return fmt::format(
      R"({{"step":{},"time":{},"val_loss":{},"loss_unit":{}{}{},"val_tokens":{},"val_s":{}}})",
      m.step, stamp(m.time), exact(m.loss), Json(info.loss.unit).dump(), bits,
      own_entries("val_", m.metrics), m.tokens, rounded(m.seconds));
}

History read_history(const Path& file, std::int64_t last_step) {
  History history;
  if (!std::filesystem::exists(file)) return history;
  const std::string text = read_file(file);
  std::string_view rest = text;
  for (std::size_t end; (end = rest.find('\n')) != std::string_view::npos;
       rest.remove_prefix(end + 1))
    read_line(rest.substr(0, end), last_step, history);
  return history;
}

std::unique_ptr<Callback> jsonl_callback() { return std::make_unique<Jsonl>(); }

}  // namespace trireme::train
