#include "trireme/train/callbacks/progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trireme/base/clock.h"
#include "trireme/base/median.h"
#include "trireme/train/callbacks/rank_memory.h"
#include "trireme/train/callbacks/step_time.h"
#include "trireme/train/callbacks/text.h"

namespace trireme::train {
namespace {

// Weight of the newest step in the mean step time that the ETA uses.
constexpr double kNewest = 0.1;
constexpr std::size_t kRanks = 1;  // whose memory is reported at the end

std::string rate_text(const StepMetrics& m) {
  std::string text = short_count(m.tokens_per_s) + " tok/s";
  if (m.mfu > 0) text += fmt::format("  MFU {:.1f}%", 100 * m.mfu);
  return text;
}

template <typename Metrics>
std::string metrics_text(const Metrics& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics) text += fmt::format("  {} {:.4g}", name, value);
  return text;
}

std::string scale_text(const StepMetrics& m) {
  return m.loss_scale == 1 ? "" : fmt::format("  loss scale {}", m.loss_scale);
}

class Progress final : public Callback {
 public:
  explicit Progress(ProgressOptions options) : options_(std::move(options)) {}

  void on_start(const RunInfo& info) override {
    info_ = info;
    last_.step = info.first_step;
    if (!info.resumed.empty()) line("resume    " + info.resumed);
    for (const std::string& place : info.offload) line("offload   " + place);
    if (!info.loss.name.empty()) line("loss      " + info.loss.text());
    clock_.restart();
  }

  void on_step(const StepMetrics& m) override {
    mean_step_s_ = mean_step_s_ == 0 ? m.step_ms / 1e3
                                     : (1 - kNewest) * mean_step_s_ + kNewest * m.step_ms / 1e3;
    last_ = m;
    step_s_.emplace_back(m.step, m.step_ms / 1e3);
    if (m.skipped && m.loss_scale != 1)  // without a scale it is a fault, and reported as one
      line(fmt::format("step {}  overflow at loss scale {}: no update", m.step, m.loss_scale));
    if (options_.columns) {
      if (drawn_ && redraw_.seconds() < options_.redraw_s && m.step < info_.steps) return;
      draw();
    } else if (m.step % options_.log_every == 0 || m.step == info_.steps) {
      line(fmt::format("step {:>{}}/{}  loss {:.4f}{}  grad norm {:.3f}  lr {:.2e}{}  {}  ETA {}",
                       m.step, std::to_string(info_.steps).size(), info_.steps, m.loss,
                       metrics_text(m.metrics), m.grad_norm, m.lr, scale_text(m), rate_text(m),
                       short_time(eta_s())));
    }
  }

  void on_eval(const EvalMetrics& m) override {
    const std::string bits = bits_text(m.bits_per_byte, options_.baseline);
    line(fmt::format("step {}  validation loss {}{}{}  in {}", m.step,
                     std::isfinite(m.loss) ? fmt::format("{:.4f}{}", m.loss, info_.loss.suffix())
                                           : "is not finite",
                     bits.empty() ? "" : "  " + bits, metrics_text(m.metrics),
                     short_time(m.seconds)));
  }

  void on_checkpoint(const CheckpointMetrics& m) override {
    if (!m.directory.empty())
      line(fmt::format("step {}  saved {} in {}, training stood still for {}", m.step,
                       m.directory.string(), short_time(m.seconds), short_time(m.standing_s)));
    if (!m.problem.empty()) warning(fmt::format("step {}  warning: {}", m.step, m.problem));
  }

  void on_fault(const formats::Event& fault) override {
    warning(fmt::format("step {}  {}: {}; {}", fault.step, fault.kind, fault.cause, fault.action));
  }

  void on_rewind(std::int64_t step) override {
    last_.step = step;
    std::erase_if(step_s_, [step](const auto& one) { return one.first > step; });
  }

  void on_end(const RunEnd& end) override {
    const std::string time = short_time(clock_.seconds());
    if (end.ending == Ending::kInterrupted)
      line(fmt::format(
          "interrupted after step {} of {}, {}; resume with the same command and --out {}",
          end.step, info_.steps,
          end.checkpoint.empty() ? "nothing saved" : "saved " + end.checkpoint.string(),
          info_.out.string()));
    else
      line(fmt::format("done: {} steps in {}", end.step - info_.first_step, time));
    if (end.checkpoints_failed + end.checkpoints_skipped > 0)
      line(fmt::format("checkpoints: {} could not be written, {} were due while another was",
                       end.checkpoints_failed, end.checkpoints_skipped));
    if (const SnapshotCount& s = end.snapshots; s.taken + s.failed + s.skipped > 0)
      line(fmt::format(
          "snapshots in memory: {}, training stood still for {:.1f} ms each; {} could "
          "not be written, {} were due while another was",
          s.taken,
          1e3 * s.standing_s / static_cast<double>(std::max<std::int64_t>(1, s.taken + s.failed)),
          s.failed, s.skipped));
    if (const double step_s = median_step_s(); info_.predicted_step_s > 0 && step_s > 0)
      line(forecast_line(info_, step_s));
    if (info_.predicted_process > 0 && end.measured_process > 0)
      line(fmt::format("memory of rank 0's process: {} forecast, {} measured",
                       short_bytes(static_cast<std::int64_t>(info_.predicted_process)),
                       short_bytes(static_cast<std::int64_t>(end.measured_process))));
    for (const RankMemory& rank : shown_ranks(info_, end, kRanks))
      line(fmt::format("memory of rank {}: {} forecast, {} measured", rank.rank,
                       short_bytes(rank.predicted), short_bytes(rank.measured)));
    for (const auto& [place, moved] : end.offload)
      line(fmt::format("offload of rank 0: {} written to {}, {} read",
                       moved_text(moved.written, moved.write_s), place,
                       moved_text(moved.read, moved.read_s)));
    undraw();
  }

  ~Progress() override {
    // After an error the message must not share the bar's line.
    undraw();
  }

 private:
  double eta_s() const { return static_cast<double>(info_.steps - last_.step) * mean_step_s_; }

  double median_step_s() const {
    std::vector<double> seconds;
    for (const auto& [step, one] : step_s_) seconds.push_back(one);
    return median(std::move(seconds));
  }

  void draw() {
    options_.write(
        fmt::format("\r{}\x1b[K", bar_line(last_, info_.steps, eta_s(), options_.columns())));
    drawn_ = true;
    redraw_.restart();
  }

  void undraw() {
    if (drawn_) options_.write("\r\x1b[K");
    drawn_ = false;
  }

  void warning(const std::string& text) {
    line(options_.colours ? "\x1b[33m" + text + "\x1b[0m" : text);
  }

  void line(const std::string& text) {
    const bool redraw = drawn_;
    undraw();
    options_.write(text + "\n");
    if (redraw) draw();
  }

  ProgressOptions options_;
  RunInfo info_;
  StepMetrics last_;
  double mean_step_s_ = 0;
  std::vector<std::pair<std::int64_t, double>> step_s_;  // by step, of those that stand
  bool drawn_ = false;
  Stopwatch clock_;
  Stopwatch redraw_;
};

}  // namespace

std::string bar_line(const StepMetrics& m, std::int64_t steps, double eta_s, int columns) {
  constexpr int kFullBar = 24, kSmallestBar = 8;
  const double done =
      steps > 0 ? std::clamp(static_cast<double>(m.step) / static_cast<double>(steps), 0.0, 1.0)
                : 1;
  const std::string head = fmt::format("{}/{} ", m.step, steps);
  const int room = std::max(0, columns - 1);  // a full line would wrap on some terminals
  std::string tail;
  int left = room - static_cast<int>(head.size());
  std::vector<std::string> items = {fmt::format("loss {:.4f}", m.loss), "ETA " + short_time(eta_s),
                                    short_count(m.tokens_per_s) + " tok/s"};
  if (m.mfu > 0) items.push_back(fmt::format("MFU {:.1f}%", 100 * m.mfu));
  for (const std::string& item : items) {
    if (left - static_cast<int>(tail.size() + item.size()) - 2 < kSmallestBar) break;
    tail += "  " + item;
  }
  left -= static_cast<int>(tail.size());
  const int width = std::min(left, kFullBar);
  if (width < kSmallestBar) return head.substr(0, static_cast<std::size_t>(room));
  const int filled = static_cast<int>(done * width);
  std::string bar;
  for (int i = 0; i < width; ++i) bar += i < filled ? "━" : "╌";
  return head + bar + tail;
}

std::string bits_text(double bits_per_byte, std::optional<double> baseline) {
  if (!(bits_per_byte > 0) || !std::isfinite(bits_per_byte)) return "";
  std::string text = fmt::format("{:.3f} bits/byte", bits_per_byte);
  if (baseline) text += fmt::format(" (n-gram baseline {:.3f})", *baseline);
  return text;
}

std::unique_ptr<Callback> progress_callback(ProgressOptions options) {
  return std::make_unique<Progress>(std::move(options));
}

}  // namespace trireme::train
