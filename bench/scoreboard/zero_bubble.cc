#include "bench/scoreboard/zero_bubble.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace trireme::scoreboard {

namespace schedules = schedules;

namespace {

struct Model {
  std::string_view name;
  GptShape gpt;
};
constexpr std::array<Model, 4> kModels = {{{"1.5B", {22, 2304, 24, 1024, 0}},
                                           {"6.2B", {30, 4096, 32, 1024, 0}},
                                           {"14.6B", {46, 5120, 40, 1024, 0}},
                                           {"28.3B", {62, 6144, 48, 1024, 0}}}};

// Table 9: what was profiled on stages of so many layers.
struct Profile {
  std::string_view model;
  double layers, micro_batch;
  int micro_batches;
  schedules::StageCost stage;
  double transfer;
};
constexpr Profile kProfiles[] = {{"1.5B", 3, 6, 24, {18.522, 18.086, 9.337}, 0.601},
                                 {"1.5B", 3, 6, 64, {18.546, 18.097, 9.321}, 0.762},
                                 {"6.2B", 4, 3, 24, {29.718, 29.444, 19.927}, 0.527},
                                 {"6.2B", 4, 3, 32, {29.802, 29.428, 19.53}, 0.577},
                                 {"14.6B", 3, 1, 64, {11.307, 11.254, 8.101}, 0.379},
                                 {"14.6B", 3, 1, 128, {11.325, 11.308, 8.109}, 0.378},
                                 {"28.3B", 2, 1, 96, {10.419, 10.207, 7.715}, 0.408},
                                 {"28.3B", 2, 1, 256, {10.402, 10.248, 7.698}, 0.46}};

// Tokens of a micro-batch by which an A100's kernels fall short: n take the time of n + this. From the rows of table 7
// that differ in the micro-batch only.
constexpr double kRampTokens = 190;

const Profile* nearest_profile(std::string_view model, int micro_batches) {
  const Profile* nearest = nullptr;
  const auto distance = [&](const Profile& p) {
    return std::abs(std::log(static_cast<double>(p.micro_batches) / micro_batches));
  };
  for (const Profile& profile : kProfiles)
    if (profile.model == model && (!nearest || distance(profile) < distance(*nearest)))
      nearest = &profile;
  return nearest;
}

// What of a micro-batch's activations W needs after I: 32 of 34 + 5as/h bytes (section 4.3 of the paper).
double kept_for_weights(const GptShape& gpt) {
  return 32 / (34 + 5 * gpt.heads * gpt.sequence / gpt.hidden);
}

// Micro-batches times layers, at most, of any rank: stage 0 and the last have a layer less.
double fullest(const schedules::Grid& grid, const std::vector<double>& peaks, double layers) {
  double most = 0;
  const int ranks = grid.ranks(), last = ranks * grid.chunks - 1;
  for (int rank = 0; rank < ranks; ++rank) {
    double own = layers;
    for (const int end : {0, last}) own -= schedules::rank_of(grid.placement, ranks, end) == rank;
    most = std::max(most, own * peaks[static_cast<std::size_t>(rank)]);
  }
  return most;
}

}  // namespace

std::optional<GptShape> zero_bubble_model(std::string_view name) {
  const auto model = std::ranges::find(kModels, name, &Model::name);
  if (model == kModels.end()) return {};
  return model->gpt;
}

std::optional<ZeroBubbleRun> zero_bubble_run(std::string_view model, int ranks, double micro_batch,
                                             int micro_batches) {
  const auto gpt = zero_bubble_model(model);
  if (!gpt || micro_batches < 1) return {};
  const Profile& profile = *nearest_profile(model, micro_batches);
  const double layers = (gpt->layers + 2) / ranks;
  const double tokens = micro_batch * gpt->sequence;
  const double longer = layers / profile.layers * (tokens + kRampTokens) /
                        (profile.micro_batch * gpt->sequence + kRampTokens);
  const auto& [f, i, w] = profile.stage;
  return ZeroBubbleRun{.gpt = *gpt,
                       .layers = layers,
                       .micro_batch = micro_batch,
                       .micro_batches = micro_batches,
                       .ranks = ranks,
                       .stage = {f * longer, i * longer, w * longer},
                       .transfer = profile.transfer * micro_batch / profile.micro_batch,
                       .kept = kept_for_weights(*gpt)};
}

std::optional<ZeroBubbleRun> zero_bubble_run(const Csv& csv, std::size_t row,
                                             std::string_view model, double micro_batch) {
  auto run =
      zero_bubble_run(model, csv.count(row, "pp"), micro_batch, csv.count(row, "num_microbatches"));
  if (!run || !csv.has("t_f_ms") || csv.text(row, "t_f_ms").empty()) return run;
  run->stage = {csv.need(row, "t_f_ms"), csv.need(row, "t_b_ms"), csv.need(row, "t_w_ms")};
  run->transfer = csv.need(row, "t_comm_ms");
  return run;
}

std::optional<NamedSchedule> named_schedule(std::string_view name) {
  using enum schedules::Schedule;
  if (name == "1F1B") return NamedSchedule{k1F1B};
  if (name == "1F1B-I") return NamedSchedule{kInterleaved};
  if (name == "ZB-H1") return NamedSchedule{kZbH1};
  if (name == "ZB-H2") return NamedSchedule{kZbH2};
  if (name == "ZB-1p" || name == "ZB-1P") return NamedSchedule{kZbAuto};
  if (name == "ZB-2p" || name == "ZB-2P" || name == "ZB-2p*") return NamedSchedule{kZbAuto, 2};
  if (name == "ZB-V" || name == "V-ZB") return NamedSchedule{kZbV};
  if (name == "V-Half") return NamedSchedule{kVHalf};
  if (name == "V-Min") return NamedSchedule{kVMin};
  return {};
}

std::string why_not(const std::optional<ZeroBubbleRun>& run,
                    const std::optional<NamedSchedule>& schedule) {
  if (!run) return "the paper has no such model";
  if (!schedule) return "no such schedule";
  if (schedule->schedule == schedules::Schedule::kInterleaved &&
      run->micro_batches % run->ranks != 0)
    return "interleaving takes micro-batches in multiples of the ranks";
  return {};
}

ScheduleForecast run_schedule(const ZeroBubbleRun& run, const NamedSchedule& schedule,
                              Transfers transfers, bool barrier) {
  const bool interleaved = schedule.schedule == schedules::Schedule::kInterleaved;
  const int chunks = interleaved ? std::max(2, static_cast<int>(run.layers))
                                 : schedules::chunks_of(schedule.schedule, 0);
  const bool blocking = transfers == Transfers::kBlocking;
  const double wait = blocking ? run.transfer : 0;
  const auto& [f, i, w] = run.stage;
  const schedules::ScheduleShape shape{.ranks = run.ranks,
                                       .chunks = chunks,
                                       .micro_batches = run.micro_batches,
                                       .stages = std::vector<schedules::StageCost>(
                                           static_cast<std::size_t>(run.ranks * chunks),
                                           {f / chunks + wait, i / chunks + wait, w / chunks}),
                                       .transfer = blocking ? 0 : run.transfer,
                                       .activation_limit = schedule.limit,
                                       .kept = run.kept,
                                       .barrier = barrier};
  const schedules::Grid grid = schedules::make_grid(schedule.schedule, shape);
  const schedules::GridTimes times = schedules::time_grid(grid, shape);
  return {.step = barrier ? times.makespan : times.longest_rank,
          .busy = run.micro_batches * (f + i + w),
          .memory = fullest(grid, times.peak_memory, run.layers)};
}

}  // namespace trireme::scoreboard
