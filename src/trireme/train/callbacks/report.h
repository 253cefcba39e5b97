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

// Text that a model wrote, and the beginning that it was given.
struct Written {
  std::string prompt{};
  std::string text{};
};

// Contents of the page.
struct Report {
  RunInfo info;
  RunEnd end;
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::optional<double> baseline;   // bits per byte
  std::vector<EventLine> events{};  // in the order in which they were written
  std::vector<Written> written{};   // samples of what the trained model writes
  std::string timeline{};           // of a measured step, as SVG; empty: the forecast's is shown
  double end_time = 0;              // in seconds since 1970
};

// The page: curves, forecast and measurement, events, samples, timeline, origin of the run, plan, job. Any text is
// escaped; nothing is loaded.
std::string html(const Report& report);

// Contents of an events.jsonl without unreadable lines; empty if the file does not exist.
std::vector<EventLine> read_events(const Path& file);

struct ReportOptions {
  std::optional<double> baseline{};  // bits per byte
  // Asked where a run is done for samples of what the model in this checkpoint writes; empty: none.
  std::function<std::vector<Written>(const Path& checkpoint)> write{};
};

// Writes RUNDIR/report.html at the end of a run, also of an interrupted one. A resumed run's page begins with the steps
// in metrics.jsonl.
std::unique_ptr<Callback> report_callback(ReportOptions options = {});

}  // namespace trireme::train
