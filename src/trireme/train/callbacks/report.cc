#include "trireme/train/callbacks/report.h"

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "trireme/base/json.h"
#include "trireme/train/callbacks/chart.h"
#include "trireme/train/callbacks/jsonl.h"
#include "trireme/train/callbacks/progress.h"
#include "trireme/train/callbacks/rank_memory.h"
#include "trireme/train/callbacks/report_charts.h"
#include "trireme/train/callbacks/report_style.h"
#include "trireme/train/callbacks/step_time.h"
#include "trireme/train/callbacks/text.h"
#include "trireme/train/watch/wall_time.h"

namespace trireme::train {
namespace {

constexpr char kTimelineName[] = "timeline.svg";  // which run.trace leaves
constexpr std::size_t kLargestTimeline = 2 << 20;

std::string time_text(double time) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(time)));
}

std::string tile(const std::string& value, const std::string& what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>\n", escape_html(value),
                     escape_html(what));
}

std::string validation_tiles(const Report& r) {
  if (r.evals.empty()) return "";
  const EvalMetrics& eval = r.evals.back();
  std::string html =
      tile(std::isfinite(eval.loss) ? fmt::format("{:.4f}", eval.loss) : "not finite",
           "validation loss" + (r.info.loss.unit.empty() ? "" : ", " + r.info.loss.unit));
  if (eval.bits_per_byte > 0 && std::isfinite(eval.bits_per_byte))
    html += tile(fmt::format("{:.3f}", eval.bits_per_byte), "validation bits/byte");
  if (r.baseline)
    html += tile(fmt::format("{:.3f}", *r.baseline), "order-3 n-gram baseline, bits/byte");
  for (const auto& [name, value] : eval.metrics)
    html += tile(fmt::format("{:.4g}", value), "validation " + name);
  return html;
}

std::string tiles(const Report& r) {
  std::string html = "<div class=\"tiles\">\n" + validation_tiles(r);
  if (!r.steps.empty()) {
    html += tile(fmt::format("{:.4f}", r.steps.back().loss), "last training loss");
    if (r.evals.empty())
      for (const auto& [name, value] : r.steps.back().metrics)
        html += tile(fmt::format("{:.4g}", value), name + " of the last step");
    html += tile(short_count(median_of(r.steps, &StepMetrics::tokens_per_s)), "tokens/s, median");
    const double mfu = median_of(r.steps, &StepMetrics::mfu);
    if (mfu > 0)
      html +=
          tile(fmt::format("{:.1f}%", 100 * mfu), "MFU, median (" + r.info.mfu_convention + ")");
  }
  if (r.end_time > 0 && r.info.time > 0)
    html += tile(short_time(r.end_time - r.info.time), "wall time since the start or resume");
  return html + tile(short_count(static_cast<double>(r.info.parameters)), "parameters") +
         "</div>\n";
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
    rows += row("memory of rank 0's process, without pages of files",
                short_bytes(static_cast<std::int64_t>(r.info.predicted_process)),
                short_bytes(static_cast<std::int64_t>(r.end.measured_process)),
                r.end.measured_process / r.info.predicted_process);
  for (const RankMemory& rank : shown_ranks(r.info, r.end))
    rows += row(fmt::format("tensors of rank {}, peak of a step", rank.rank),
                short_bytes(rank.predicted), short_bytes(rank.measured), rank.ratio());
  if (rows.empty()) return "";
  return "<h2>Forecast and measurement</h2>\n<table class=\"numbers\">"
         "<tr><th></th><th>forecast</th><th>measured</th><th>measured / forecast</th></tr>\n" +
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

std::string events(const Report& r) {
  constexpr std::size_t kMost = 100;
  if (r.events.empty()) return "";
  const std::size_t first = r.events.size() > kMost ? r.events.size() - kMost : 0;
  std::string html =
      "<h2>Events</h2>\n<div class=\"scroll\"><table>"
      "<tr><th>time, UTC</th><th>step</th><th>rank</th><th>event</th><th>action</th></tr>\n";
  for (std::size_t k = first; k < r.events.size(); ++k) {
    const EventLine& event = r.events[k];
    html += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>\n",
                        escape_html(event.time), event.step,
                        event.rank < 0 ? "" : std::to_string(event.rank),
                        escape_html(event.kind + (event.cause.empty() ? "" : ": " + event.cause)),
                        escape_html(event.action));
  }
  html += "</table></div>\n";
  if (first > 0)
    html += fmt::format("<p class=\"sub\">and {} earlier ones in {}</p>\n", first,
                        formats::kEventsName);
  return html;
}

std::string written(const Report& r) {
  if (r.written.empty()) return "";
  std::string html =
      "<h2>Samples</h2>\n<p class=\"sub\">what the trained model writes after a prompt</p>\n";
  for (const Written& one : r.written)
    html += "<pre class=\"written\"><b>" + escape_html(one.prompt) + "</b>" +
            escape_html(one.text) + "</pre>\n";
  return html;
}

// The picture's own style is for it alone.
std::string timeline(const Report& r) {
  std::string svg = r.timeline.empty() ? r.info.timeline : r.timeline;
  if (svg.empty() || svg.size() > kLargestTimeline) return "";
  const auto replace = [&svg](std::string_view from, std::string_view to) {
    if (const std::size_t at = svg.find(from); at != std::string::npos)
      svg.replace(at, from.size(), to);
  };
  replace(" xmlns=\"http://www.w3.org/2000/svg\"", "");
  replace("<style>", "<style>.timeline svg{");
  replace("</style>", "}</style>");
  return "<h2>Timeline of a step</h2>\n<div class=\"scroll timeline\">" + svg + "</div>\n";
}

std::string fact(const char* name, const std::string& value) {
  if (value.empty()) return "";
  return fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", name, escape_html(value));
}

std::string facts(const Report& r) {
  const RunInfo& info = r.info;
  std::string html = "<h2>Run</h2>\n<table class=\"facts\">\n";
  html += fact("directory", info.out.string());
  if (!info.from.command.empty())
    html +=
        "<tr><th>command</th><td><code>" + escape_html(info.from.command) + "</code></td></tr>\n";
  html += fact("data", info.from.data) + fact("data digest", info.digest) +
          fact("loss", info.loss.text());
  html += fact("host", info.host) + fact("versions", info.from.versions);
  if (info.time > 0) html += fact("started", time_text(info.time));
  if (r.end_time > 0) html += fact("ended", time_text(r.end_time));
  html += fact("last checkpoint", r.end.checkpoint.string());
  return html + "</table>\n";
}

std::string subtitle(const Report& r) {
  std::string text = r.info.model.empty() ? "" : r.info.model + ": ";
  text += r.end.ending == Ending::kInterrupted
              ? fmt::format("interrupted after step {} of {}", r.end.step, r.info.steps)
              : fmt::format("{} steps", r.end.step);
  text += fmt::format(" on {} {}", r.info.world, r.info.world == 1 ? "rank" : "ranks");
  if (r.info.first_step > 0) text += fmt::format(", resumed after step {}", r.info.first_step);
  return text;
}

std::string timeline_in(const Path& run) {
  std::error_code absent;
  const Path file = run / kTimelineName;
  return std::filesystem::is_regular_file(file, absent) ? read_file(file) : "";
}

class ReportWriter final : public Callback {
 public:
  explicit ReportWriter(ReportOptions options) : options_(std::move(options)) {
    report_.baseline = options_.baseline;
  }

  void on_start(const RunInfo& info) override {
    report_.info = info;
    History history = read_history(info.out / kMetricsName, info.first_step);
    report_.steps = std::move(history.steps);
    report_.evals = std::move(history.evals);
    // A timeline of another run in this directory is not this one's.
    if (info.first_step == 0) earlier_timeline_ = timeline_in(info.out);
  }
  void on_step(const StepMetrics& metrics) override { report_.steps.push_back(metrics); }
  void on_eval(const EvalMetrics& metrics) override { report_.evals.push_back(metrics); }
  void on_rewind(std::int64_t step) override {
    const auto later = [step](const auto& metrics) { return metrics.step > step; };
    std::erase_if(report_.steps, later);
    std::erase_if(report_.evals, later);
  }
  void on_end(const RunEnd& end) override {
    const Path& out = report_.info.out;
    report_.end = end;
    report_.end_time = report_.info.time > 0 ? wall_time() : 0;
    report_.events = read_events(out / formats::kEventsName);
    if (std::string traced = timeline_in(out); traced != earlier_timeline_)
      report_.timeline = std::move(traced);
    if (options_.write && end.ending == Ending::kDone && !end.checkpoint.empty())
      report_.written = options_.write(end.checkpoint);
    replace_file(out / kReportName, html(report_));
  }

 private:
  ReportOptions options_;
  std::string earlier_timeline_;
  Report report_;
};

}  // namespace

std::string html(const Report& r) {
  const std::string name = escape_html(r.info.name);
  return "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" +
         name + "</title>\n<style>" + kReportStyle + "</style></head>\n<body><main>\n<h1>" + name +
         "</h1>\n<p class=\"sub\">" + escape_html(subtitle(r)) + "</p>\n" + tiles(r) + charts(r) +
         written(r) + forecast_text(r) + events(r) + timeline(r) + offload(r) + facts(r) +
         "<h2>Plan</h2>\n<pre>" + escape_html(r.info.plan_summary) +
         "</pre>\n<h2>Job</h2>\n<details><summary>every key, resolved</summary><pre>" +
         escape_html(r.info.job_yaml) + "</pre></details>\n</main></body></html>\n";
}

std::vector<EventLine> read_events(const Path& file) {
  std::vector<EventLine> events;
  std::error_code absent;
  if (!std::filesystem::is_regular_file(file, absent)) return events;
  std::istringstream lines(read_file(file));
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line, nullptr, false);
    const auto text = [&](const char* key) {
      const auto found = json.find(key);
      return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
    };
    const auto whole = [&](const char* key, std::int64_t missing) {
      const auto found = json.find(key);
      return found != json.end() && found->is_number_integer() ? found->get<std::int64_t>()
                                                               : missing;
    };
    if (!json.is_object()) continue;
    events.push_back({.time = text("time"),
                      .kind = text("class"),
                      .rank = static_cast<int>(whole("rank", -1)),
                      .step = whole("step", 0),
                      .cause = text("cause"),
                      .action = text("action")});
  }
  return events;
}

std::unique_ptr<Callback> report_callback(ReportOptions options) {
  return std::make_unique<ReportWriter>(std::move(options));
}

}  // namespace trireme::train
