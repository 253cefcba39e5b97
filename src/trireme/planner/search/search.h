// Search: the best layouts of a job on a cluster, through three screens. Closed forms judge all of them; the costs of
// stages and the schedule's clock the best few dozen. For the last handful the plan is compiled, proven and simulated
// line by line, and its memory is counted.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "trireme/plan/simulate/simulate.h"
#include "trireme/planner/cost/device_memory.h"
#include "trireme/planner/cost/layout.h"
#include "trireme/planner/search/report/question.h"
#include "trireme/planner/search/screen.h"

namespace trireme::planner {

enum class Objective {
  kTime,  // of a step, on all GPUs of the question
  kMoney  // of a token: also on fewer GPUs
};

struct Settings {
  Objective by = Objective::kTime;
  int options = 5;      // of different shapes, to return
  int estimated = 48;   // through the second screen
  int compiled = 40;    // through the third, at most
  bool explain = true;  // reasons, and what would change the choice
  // Approximate ways of communication (communication.h) that may be chosen: by name, or up to so many percent of
  // validation loss, as measured. With either, or on slow networks, all ways are priced.
  std::vector<std::string> allow{};
  std::optional<double> max_loss{};
  std::function<void(const std::string&)> progress = nullptr;  // what is being done
};

// A layout that was compiled and proven.
struct Option {
  Layout layout;
  config::Job job;           // resolved
  double seconds = 0;        // of a step
  double low = 0, high = 0;  // the machine's own band, where it was calibrated; else 0
  double estimate = 0;       // by the second screen
  double screen = 0;         // and by the first
  DeviceMemory memory;       // of the rank that needs most
  double host = 0;           // bytes of one rank in host memory
  bool whole = true;         // all micro-batches were compiled; else a few, and the rest estimated
  double bubble = 0;         // share of the step in which ranks stand idle
  double exposed = 0;        // seconds of communication that nothing covers
  double model_flops = 0;    // of a step, expected (model::kComputedFlops)
  std::int64_t sample_tokens = 0;
  double parameters = 0;
  double trained = 0;  // of them

  double mfu(const Cluster& cluster) const;
  double tokens() const;  // of a step
};

struct Reason {
  Choice choice = Choice::kTp;
  std::string text;  // one sentence
};

// A question with one thing changed, and what is best then.
struct Change {
  std::string what;
  Layout best;
  double seconds = 0;  // of a step
  bool alters = false;
};

// A way of communication between hosts, priced on the best layout.
struct Communication {
  std::string name;  // "dense", "q4_residual"
  Layout layout;
  config::Network network;
  bool exact = false;
  std::optional<double> loss;  // percent more than exact sums, as measured; nothing: not measured
  bool allowed = false;
  std::string why;     // it may not be chosen, or cannot be
  double seconds = 0;  // of a step, with its part of outer steps; 0: it cannot be
  double sent = 0;     // bytes a host and step
  double codec_s = 0;  // of a step
  double below = 0;    // bytes a second of a host's link under which it pays; 0: no codec
  bool chosen = false;
};

struct Effort {
  std::int64_t layouts = 0;  // priced by closed forms
  std::int64_t fitting = 0;
  int estimated = 0;
  int compiled = 0;
  double seconds = 0;
};

struct Answer {
  Question question;  // completed
  Objective by = Objective::kTime;
  std::vector<Option> options;  // best first; there is one
  std::vector<Reason> reasons;  // of the first
  std::vector<Change> changes;
  std::vector<std::string> notes;             // what else should be known
  std::vector<Communication> communications;  // where hosts are joined by slow links
  Effort effort;
};

// Throws Error{kUsage} for a question that cannot be, and Error{kOutOfMemory} with the smallest need where nothing fits.
Answer search(Question question, const Settings& settings = {});

// Bytes that the option takes of its GPU, and whether that is within what a GPU has.
double needed(const Question& question, const Option& option);

}  // namespace trireme::planner
