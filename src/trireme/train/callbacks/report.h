// report.html: one self-contained page about a run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/train/callbacks.h"

namespace trireme::train {

inline constexpr char kReportName[] = "report.html";

// What the page tells.
struct Report {
  RunInfo info;
  RunEnd end;
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::optional<double> baseline;  // bits per byte
};

// The page: loss curve, forecast beside measurement, plan, job. Any text is escaped; nothing is
// loaded.
std::string html(const Report& report);

// Writes RUNDIR/report.html at the end of a run, also of an interrupted one; a resumed run's page
// begins with the steps that metrics.jsonl tells of.
std::unique_ptr<Callback> report_callback(std::optional<double> baseline = {});

}  // namespace trireme::train
