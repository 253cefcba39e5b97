#include "trireme/train/callbacks/step_time.h"

#include <fmt/core.h>

namespace trireme::train {

std::string band_text(const RunInfo& info) {
  if (info.predicted_high_s <= 0) return "";
  return fmt::format(" ({:.1f} to {:.1f})", 1e3 * info.predicted_low_s,
                     1e3 * info.predicted_high_s);
}

std::string verdict(const RunInfo& info, double step_s) {
  if (info.predicted_high_s <= 0) return "";
  return step_s >= info.predicted_low_s && step_s <= info.predicted_high_s ? ", inside"
                                                                           : ", outside";
}

std::string forecast_line(const RunInfo& info, double step_s) {
  constexpr char kMeasure[] =
      "trireme bench calibrate measures this machine while nothing else runs";
  const std::string both =
      fmt::format("step time: {:.1f} ms measured, {:.1f} ms{} forecast {}", 1e3 * step_s,
                  1e3 * info.predicted_step_s, band_text(info), info.prediction);
  if (info.predicted_high_s <= 0) return both;  // and the source says why
  return step_s >= info.predicted_low_s && step_s <= info.predicted_high_s
             ? both + ": inside the band"
             : fmt::format("{}: outside the band; {}", both, kMeasure);
}

}  // namespace trireme::train
