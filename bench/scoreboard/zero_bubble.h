// The models, machines and profiles of Qi et al. 2023 (arXiv 2401.10241), and what the schedules make of them.
#pragma once

#include <optional>
#include <string_view>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/csv.h"
#include "trireme/plan/schedules/schedule.h"

namespace trireme::scoreboard {

// A pipeline of theirs: one chunk a rank before the schedule cuts it, one layer less on the first and the last stage.
struct ZeroBubbleRun {
  GptShape gpt;
  double layers = 0;  // of a stage, but the first and the last
  double micro_batch = 0;
  int micro_batches = 0;
  int ranks = 0;
  schedules::StageCost stage;  // ms: T_F, T_B (the input half), T_W
  double transfer = 0;         // ms: T_comm
  double kept = 1;             // share of a micro-batch's activations that W needs after I
};

// "1.5B" and so on: table 3. Nothing for other names.
std::optional<GptShape> zero_bubble_model(std::string_view name);

// The run of a table's row, its times those of table 9 for the model, of the number of micro-batches nearest to this
// one, scaled to layers of a stage and micro-batch. Nothing for models that the paper does not have.
std::optional<ZeroBubbleRun> zero_bubble_run(std::string_view model, int ranks, double micro_batch,
                                             int micro_batches);

// The same of a row with the columns pp and num_microbatches; times of its own (t_f_ms, t_b_ms, t_w_ms, t_comm_ms) are
// taken as they are.
std::optional<ZeroBubbleRun> zero_bubble_run(const Csv& csv, std::size_t row,
                                             std::string_view model, double micro_batch);

// A schedule as the papers name it, with what it may hold in multiples of 1F1B's memory.
struct NamedSchedule {
  schedules::Schedule schedule;
  double limit = 1;
};
// 1F1B 1F1B-I ZB-H1 ZB-H2 ZB-1p ZB-2p ZB-2p* ZB-V V-ZB V-Half V-Min, in either case of p; nothing for others.
std::optional<NamedSchedule> named_schedule(std::string_view name);

// Why the run cannot be forecast under the schedule; empty if it can.
std::string why_not(const std::optional<ZeroBubbleRun>& run,
                    const std::optional<NamedSchedule>& schedule);

// Where a transfer is counted: while it runs the ranks compute (the paper's simulation), or its sender waits (what
// their runs do).
enum class Transfers { kBehind, kBlocking };

struct ScheduleForecast {
  double step =
      0;  // ms, from first to last action of the busiest rank, or of all if the ranks meet at the end
  double busy = 0;    // ms that a rank computes
  double memory = 0;  // activations of the fullest rank, in layers times micro-batches
};
ScheduleForecast run_schedule(const ZeroBubbleRun& run, const NamedSchedule& schedule,
                              Transfers transfers, bool barrier = false);

}  // namespace trireme::scoreboard
