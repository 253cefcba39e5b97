// Progress output for the person who started a run: a bar on a terminal, plain lines elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trireme/train/callbacks.h"

namespace trireme::train {

struct ProgressOptions {
  std::function<void(std::string_view text)> write;
  std::function<int()> columns;    // of the terminal, asked before each redraw; empty: plain lines
  std::int64_t log_every = 1;      // steps between plain lines
  double redraw_s = 0.1;           // shortest time between two bars
  std::optional<double> baseline;  // bits per byte to print next to the model's
  bool colours = false;            // warnings and faults in yellow
};

// Bar: one line, redrawn in place and removed at the end. Plain: a line every log_every steps.
// Validation, checkpoints and the end are lines in both.
std::unique_ptr<Callback> progress_callback(ProgressOptions options);

// The bar at `columns` columns, without control codes; what does not fit is left out, from the
// right.
std::string bar_line(const StepMetrics& metrics, std::int64_t steps, double eta_s, int columns);

// "1.842 bits/byte (n-gram baseline 2.310)", "" when the bits are not known.
std::string bits_text(double bits_per_byte, std::optional<double> baseline);

}  // namespace trireme::train
