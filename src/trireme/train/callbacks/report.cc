#include "trireme/train/callbacks/report.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "trireme/train/callbacks/chart.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/progress.h"
#include "trireme/train/callbacks/rank_memory.h"
#include "trireme/train/callbacks/step_time.h"
#include "trireme/train/callbacks/text.h"

namespace trireme::train {
namespace {

constexpr char kStyle[] = R"(
:root { color-scheme: light dark; --page: #fbfbfa; --card: #fff; --ink: #1d2329; --soft: #66707a;
  --edge: #e2e5e8; --loss: #0b6e99; --faint: #9cc7da; --val: #c2410c; }
@media (prefers-color-scheme: dark) { :root { --page: #14181c; --card: #1b2127; --ink: #e4e8ec;
  --soft: #93a0ac; --edge: #2c353d; --loss: #5ab4dc; --faint: #2f6580; --val: #f08a4b; } }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 860px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 16px; margin: 32px 0 10px; }
.sub { color: var(--soft); margin: 4px 0 20px; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 10px; }
.tile, figure, pre, table { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; }
.tile { padding: 10px 14px; } .tile b { display: block; font-size: 21px; font-weight: 600; }
.tile span { color: var(--soft); font-size: 13px; }
figure { margin: 0; padding: 12px; } svg { width: 100%; height: auto; display: block; }
svg text { fill: var(--soft); font-size: 12px; } .grid { stroke: var(--edge); }
.line { fill: none; stroke: var(--loss); stroke-width: 1.8; stroke-linejoin: round; }
.line.faint { stroke: var(--faint); stroke-width: 1; } .line.marked { stroke: var(--val); }
.dot { fill: var(--val); } svg text.faint { fill: var(--faint); } svg text.strong { fill: var(--loss); }
svg text.marked { fill: var(--val); }
table { border-collapse: separate; border-spacing: 0; width: 100%; }
th, td { text-align: right; padding: 7px 14px; font-variant-numeric: tabular-nums; font-weight: 400; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); }
td { border-top: 1px solid var(--edge); }
pre { padding: 12px 14px; overflow-x: auto; font: 12.5px/1.45 ui-monospace, monospace; }
details summary { cursor: pointer; color: var(--soft); }
)";

double median_of(const std::vector<StepMetrics>& steps, double StepMetrics::*field) {
  std::vector<double> values;
  for (const StepMetrics& step : steps)
    if (std::isfinite(step.*field)) values.push_back(step.*field);
  return median(std::move(values));
}

std::string tile(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_html(value),
                     escape_html(what));
}

std::string tiles(const Report& r) {
  std::string html = "<div class=\"tiles\">\n";
  if (!r.evals.empty()) {
    const EvalMetrics& eval = r.evals.back();
    html += tile(std::isfinite(eval.loss) ? fmt::format("{:.4f}", eval.loss) : "not finite",
                 "validation loss, nats/token");
    if (eval.bits_per_byte > 0 && std::isfinite(eval.bits_per_byte))
      html += tile(fmt::format("{:.3f}", eval.bits_per_byte), "validation bits/byte");
    if (r.baseline)
      html += tile(fmt::format("{:.3f}", *r.baseline), "order-3 n-gram baseline, bits/byte");
  }
  if (!r.steps.empty()) {
    html += tile(fmt::format("{:.4f}", r.steps.back().loss), "last training loss");
    html += tile(short_count(median_of(r.steps, &StepMetrics::tokens_per_s)), "tokens/s, median");
    const double mfu = median_of(r.steps, &StepMetrics::mfu);
    if (mfu > 0)
      html +=
          tile(fmt::format("{:.1f}%", 100 * mfu), "MFU, median (" + r.info.mfu_convention + ")");
  }
  return html + tile(short_count(static_cast<double>(r.info.parameters)), "parameters") +
         "</div>\n";
}

// Means over about a fiftieth of the run: what the eye looks for in a noisy curve.
Series smoothed(const Series& raw) {
  Series smooth{.name = "training, smoothed", .css_class = "strong"};
  const double keep = 1 - 1 / std::max(2.0, static_cast<double>(raw.points.size()) / 50);
  double sum = 0, weight = 0;
  for (const auto& [x, y] : raw.points) {
    if (!std::isfinite(y)) continue;
    sum = keep * sum + y;
    weight = keep * weight + 1;
    smooth.points.emplace_back(x, sum / weight);
  }
  return smooth;
}

std::string curves(const Report& r) {
  Series loss{.name = "training", .css_class = "faint"},
      val{.name = "validation", .css_class = "marked"};
  Series norm{.name = "grad norm", .css_class = "strong"};
  for (const StepMetrics& step : r.steps) {
    loss.points.emplace_back(step.step, step.loss);
    norm.points.emplace_back(step.step, step.grad_norm);
  }
  for (const EvalMetrics& eval : r.evals) val.points.emplace_back(eval.step, eval.loss);
  const Series smooth = smoothed(loss);
  return "<h2>Loss</h2>\n<figure>" +
         draw({.title = "Loss over steps",
               .y_label = "nats per token",
               .series = {loss, smooth, val}}) +
         "</figure>\n<h2>Gradient norm</h2>\n<figure>" +
         draw({.title = "Gradient norm over steps", .y_label = "", .series = {norm}}) +
         "</figure>\n";
}

std::string row(const std::string& what, const std::string& forecast, const std::string& measured,
                double ratio) {
  return fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n", what, forecast,
                     measured,
                     std::isfinite(ratio) && ratio > 0 ? fmt::format("{:.2f}", ratio) : "-");
}

std::string forecast_text(const Report& r) {
  const double step_s = median_of(r.steps, &StepMetrics::step_ms) / 1e3;
  std::string rows;
  if (r.info.predicted_step_s > 0 && step_s > 0)
    rows += row("step time, median",
                fmt::format("{:.1f} ms{}", 1e3 * r.info.predicted_step_s, band_text(r.info)),
                fmt::format("{:.1f} ms{}", 1e3 * step_s, verdict(r.info, step_s)),
                step_s / r.info.predicted_step_s);
  if (r.info.predicted_process > 0 && r.end.measured_process > 0)
    rows += row("resident memory of rank 0's process, peak",
                short_bytes(static_cast<std::int64_t>(r.info.predicted_process)),
                short_bytes(static_cast<std::int64_t>(r.end.measured_process)),
                r.end.measured_process / r.info.predicted_process);
  for (const RankMemory& rank : shown_ranks(r.info, r.end))
    rows += row(fmt::format("tensors of rank {}, peak of a step", rank.rank),
                short_bytes(rank.predicted), short_bytes(rank.measured), rank.ratio());
  if (rows.empty()) return "";
  return "<h2>The plan's forecast and what "
         "happened</h2>\n<table><tr><th></th><th>forecast</th><th>measured</th>"
         "<th>measured / forecast</th></tr>\n" +
         rows + "</table>\n" +
         (r.info.prediction.empty()
              ? ""
              : "<p class=\"sub\">step time " + escape_html(r.info.prediction) + "</p>\n");
}

std::string offload(const Report& r) {
  if (r.info.offload.empty()) return "";
  std::string html = "<h2>Outside memory, rank 0</h2>\n<pre>";
  for (const std::string& place : r.info.offload) html += escape_html(place) + "\n";
  for (const auto& [place, moved] : r.end.offload)
    html += escape_html(fmt::format("{}: {} written, {} read\n", place,
                                    moved_text(moved.written, moved.write_s),
                                    moved_text(moved.read, moved.read_s)));
  return html + "</pre>\n";
}

std::string subtitle(const Report& r) {
  std::string text = r.end.ending == Ending::kInterrupted
                         ? fmt::format("interrupted after step {} of {}", r.end.step, r.info.steps)
                         : fmt::format("{} steps", r.end.step);
  text += fmt::format(" on {} {}", r.info.world, r.info.world == 1 ? "rank" : "ranks");
  if (r.info.first_step > 0) text += fmt::format(", resumed after step {}", r.info.first_step);
  if (!r.end.checkpoint.empty()) text += ", saved as " + r.end.checkpoint.string();
  return text;
}

class ReportWriter final : public Callback {
 public:
  explicit ReportWriter(std::optional<double> baseline) { report_.baseline = baseline; }

  void on_start(const RunInfo& info) override {
    report_.info = info;
    History history = read_history(info.out / kMetricsName, info.first_step);
    report_.steps = std::move(history.steps);
    report_.evals = std::move(history.evals);
  }
  void on_step(const StepMetrics& metrics) override { report_.steps.push_back(metrics); }
  void on_eval(const EvalMetrics& metrics) override { report_.evals.push_back(metrics); }
  void on_rewind(std::int64_t step) override {
    const auto later = [step](const auto& metrics) { return metrics.step > step; };
    std::erase_if(report_.steps, later);
    std::erase_if(report_.evals, later);
  }
  void on_end(const RunEnd& end) override {
    report_.end = end;
    replace_file(report_.info.out / kReportName, html(report_));
  }

 private:
  Report report_;
};

}  // namespace

std::string html(const Report& r) {
  const std::string name = escape_html(r.info.name);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         name + "</title>\n<style>" + kStyle + "</style></head>\n<body><main>\n<h1>" + name +
         "</h1>\n<p class=\"sub\">" + escape_html(subtitle(r)) + "</p>\n" + tiles(r) + curves(r) +
         forecast_text(r) + offload(r) + "<h2>Plan</h2>\n<pre>" + escape_html(r.info.plan_summary) +
         "</pre>\n<h2>Job</h2>\n<details><summary>every key, resolved</summary><pre>" +
         escape_html(r.info.job_yaml) + "</pre></details>\n</main></body></html>\n";
}

std::unique_ptr<Callback> report_callback(std::optional<double> baseline) {
  return std::make_unique<ReportWriter>(baseline);
}

}  // namespace trireme::train
