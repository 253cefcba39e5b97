// report.html: one self-contained page about a run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/train/callbacks.h"

namespace trireme::train {

inline constexpr char kReportName[] = "report.html";

// A line of events.jsonl, as it was written.
struct EventLine {
  std::string time{};  // UTC
  std::string kind{};
  int rank = -1;  // -1: none
  std::int64_t step = 0;
  std::string cause{};
  std::string action{};
};

// What a model wrote, and what it was given to begin with.
struct Written {
  std::string prompt{};
  std::string text{};
};

// What the page tells.
struct Report {
  RunInfo info;
  RunEnd end;
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::optional<double> baseline;   // bits per byte
  std::vector<EventLine> events{};  // in the order in which they were written
  std::vector<Written> written{};   // samples of what the trained model writes
  std::string timeline{};           // of a measured step, as SVG; empty: the forecast's stands in
  double end_time = 0;              // in seconds since 1970
};

// The page: curves, forecast beside measurement, events, samples, timeline, where the run comes from, plan, job. Any text
// is escaped; nothing is loaded.
std::string html(const Report& report);

// What an events.jsonl has; unreadable lines are left out, and a file that is not there is empty.
std::vector<EventLine> read_events(const Path& file);

struct ReportOptions {
  std::optional<double> baseline{};  // bits per byte
  // Asked where a run is done for samples of what the model in this checkpoint writes; empty: none.
  std::function<std::vector<Written>(const Path& checkpoint)> write{};
};

// Writes RUNDIR/report.html at the end of a run, also of an interrupted one; a resumed run's page
// begins with the steps that metrics.jsonl tells of.
std::unique_ptr<Callback> report_callback(ReportOptions options = {});

}  // namespace trireme::train
