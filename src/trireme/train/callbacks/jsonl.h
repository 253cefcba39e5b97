// metrics.jsonl: one JSON object a step, and one for each validation; events.jsonl: one for each fault.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/train/callbacks.h"

namespace trireme::train {

inline constexpr char kMetricsName[] = "metrics.jsonl";
// The lines of the step that the newest checkpoint has: where a crash of the machine tore them in metrics.jsonl they are
// taken from there.
inline constexpr char kLastLinesName[] = ".metrics-last.jsonl";

// The lines, without newline. `loss`, `grad_norm` and `val_loss` read back to the same bits; a
// value that is not finite is null.
std::string jsonl_line(const StepMetrics& metrics, const RunInfo& info);
std::string jsonl_line(const EvalMetrics& metrics, const RunInfo& info);

// Writes RUNDIR/metrics.jsonl, each line at once. When a run resumes, lines of steps after RunInfo::first_step are
// dropped first, and later ones when training returns to an earlier step. A torn last line is repaired if it belongs to
// that step. The file becomes that of an uninterrupted run. If steps are missing nevertheless, an event names them.
// RUNDIR/events.jsonl appears with the first fault and keeps all that the disk accepts. Throws Error{kData} when
// metrics.jsonl cannot be written.
std::unique_ptr<Callback> jsonl_callback();

// Contents of a metrics.jsonl for steps up to `last_step`, without unreadable lines. Empty if the file does not exist.
struct History {
  std::vector<StepMetrics> steps;
  std::vector<EvalMetrics> evals;
  std::string text;  // the lines that were read
};
History read_history(const Path& file, std::int64_t last_step);

}  // namespace trireme::train
