// Megatron-LM and its relatives: tensor, pipeline and data parallel runs.
#include <fmt/core.h>

#include <cmath>

#include "trireme/base/error.h"
#include "trireme/planner/tables/runs.h"

namespace trireme::planner::tables {
namespace {

// Megatron-LM of 2021 and 2022: hand-written joined kernels, attention with its probabilities in memory, and neither
// transfers nor reductions beside computing.
Practice megatron(bool adds) {
  return {.attention = AttentionKernel::kUnfused,
          .fusion = Fusion::kKernels,
          .dropout = true,
          .adds_weight_gradients = adds,
          .overlaps_reduction = false,
          .overlaps_transfers = false,
          .splits_transfers = true};
}

Dimensions gpt(const Csv& csv, std::size_t row) {
  const auto whole = [&](const char* column) {
    return static_cast<std::int64_t>(csv.need(row, column));
  };
  return {.layers = whole("layers"),
          .hidden = whole("hidden"),
          .heads = whole("heads"),
          .vocab = whole("vocab"),
          .seq_len = whole("seq")};
}

int integer(const Csv& csv, std::size_t row, const char* column) {
  return static_cast<int>(csv.need(row, column));
}

// "250k", rounded up to a multiple of 128 on every tp rank, as Megatron-LM pads it.
std::int64_t vocabulary(const std::string& text, int tp) {
  const double factor = text.ends_with('k') ? 1e3 : 1;
  const auto count =
      static_cast<std::int64_t>(factor * number_of(text.substr(0, text.find('k'))).value_or(0));
  const std::int64_t multiple = std::int64_t{128} * tp;
  return (count + multiple - 1) / multiple * multiple;
}

// Settings that a row leaves open: those of these that the layout can have.
std::vector<Candidate> open_settings(const Dimensions& model, Layout layout, Again again,
                                     bool fp32_gradients, const Practice& practice,
                                     const std::vector<int>& micro_batches, int most_chunks) {
  std::vector<Candidate> candidates;
  for (const int micro_batch : micro_batches)
    for (int count = 1; count <= most_chunks; ++count) {
      const double each = layout.global_batch / (micro_batch * layout.dp);
      if (each != std::floor(each) || each < 1) continue;
      if (count > 1 && (layout.pp == 1 || std::fmod(each, layout.pp) != 0)) continue;
      if (model.layers % (layout.pp * count) != 0) continue;
      layout.micro_batch = micro_batch;
      layout.chunks = count;
      candidates.emplace_back(job_of(model, layout, again, fp32_gradients), practice);
    }
  return candidates;
}

}  // namespace

std::vector<Run> korthikanti_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const bool full = csv.text(row, "mode").starts_with("full");
    const Layout layout{.tp = integer(csv, row, "tp"),
                        .pp = integer(csv, row, "pp"),
                        .chunks = integer(csv, row, "interleave_v"),
                        .dp = integer(csv, row, "dp"),
                        .sequence_parallel = !full,
                        .micro_batch = csv.need(row, "microbatch"),
                        .global_batch = csv.need(row, "global_batch")};
    Run run{.row = csv.text(row, "model") + " " + csv.text(row, "mode"),
            .group = csv.text(row, "model"),
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = integer(csv, row, "gpus"),
            .seconds = csv.need(row, "iter_time_s")};
    Practice practice = megatron(false);
    practice.tensor = TensorOverlap::kBackward;
    run.candidates.emplace_back(
        job_of(gpt(csv, row), layout, full ? Again::kEverything : Again::kAttention, true),
        practice);
    runs.push_back(std::move(run));
  }
  return runs;
}

// One layer of the model of 22B parameters, as the paper's section 6.2 has it.
std::vector<Run> korthikanti_layers(const Csv& csv) {
  constexpr Dimensions kModel{
      .layers = 48, .hidden = 6144, .heads = 64, .vocab = 51200, .seq_len = 2048};
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& experiment = csv.text(row, "experiment");
    const auto says = [&](const char* word) { return experiment.find(word) != std::string::npos; };
    const bool sequence = says("equence Parallel");
    const bool selective = says("elective");
    const bool full = !selective && !says("no recompute") && says("recompute");
    const Layout layout{
        .tp = 8, .sequence_parallel = sequence, .micro_batch = 4, .global_batch = 4};
    Practice practice = megatron(false);
    practice.tensor = TensorOverlap::kBackward;
    const Again again = selective ? Again::kAttention : full ? Again::kEverything : Again::kNothing;
    Run run{.row = experiment + ", forward",
            .group = "22B",
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = 8,
            .timed = Timed::kForward,
            .seconds = csv.need(row, "forward_ms") / 1e3};
    run.candidates.emplace_back(job_of(kModel, layout, again, true), practice);
    runs.push_back(run);
    run.row = experiment + ", backward";
    run.timed = Timed::kBackward;
    run.seconds = csv.need(row, "backward_ms") / 1e3;
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> sc21_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const Layout layout{.tp = integer(csv, row, "tp"),
                        .pp = integer(csv, row, "pp"),
                        .dp = integer(csv, row, "dp"),
                        .global_batch = csv.need(row, "global_batch")};
    Run run{.row = csv.text(row, "params_B") + "B",
            .group = csv.text(row, "params_B") + "B",
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = integer(csv, row, "gpus"),
            .seconds = csv.need(row, "derived_iter_time_s")};
    run.candidates = open_settings(gpt(csv, row), layout, Again::kEverything, false, megatron(true),
                                   {1, 2, 4, 8, 16}, 6);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> sc21_zero3_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const bool zero3 = csv.text(row, "scheme") == "ZeRO-3";
    Practice practice = megatron(true);
    if (zero3) practice.overlaps_shards = false;
    const Layout layout{.tp = integer(csv, row, "tp"),
                        .pp = integer(csv, row, "pp"),
                        .dp = integer(csv, row, "dp"),
                        .zero = zero3 ? 3 : 0,
                        .micro_batch = csv.need(row, "microbatch"),
                        .global_batch = csv.need(row, "global_batch")};
    Run run{.row = fmt::format("{} {}B {} GPUs", csv.text(row, "scheme"), csv.text(row, "params_B"),
                               csv.text(row, "gpus")),
            .group = csv.text(row, "scheme"),
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = integer(csv, row, "gpus"),
            .seconds = csv.need(row, "derived_iter_time_s")};
    const Dimensions model = gpt(csv, row);
    if (zero3)
      run.candidates.emplace_back(job_of(model, layout, Again::kEverything, false), practice);
    else
      run.candidates = open_settings(model, layout, Again::kEverything, false, practice,
                                     {static_cast<int>(layout.micro_batch)}, 4);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> bloom_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    Run run{.row = fmt::format("{}: h {} L {} a {} dp {} tp {} pp {} mbs {} gbs {}",
                               csv.text(row, "section"), csv.text(row, "hidden"),
                               csv.text(row, "layers"), csv.text(row, "heads"), csv.text(row, "dp"),
                               csv.text(row, "tp"), csv.text(row, "pp"), csv.text(row, "mbs"),
                               csv.text(row, "gbs")),
            .group = csv.text(row, "section"),
            .lines = {csv.line(row)},
            .cluster = "jean-zay",
            .gpus = integer(csv, row, "gpus")};
    const auto seconds = csv.number(row, "sec_per_iter");
    if (csv.text(row, "complete") != "1")
      run.unscored = "the row does not give all of the layout";
    else if (!seconds)
      run.unscored = csv.text(row, "oom") == "1" ? "out of memory" : "no time";
    if (run.unscored.empty()) {
      run.seconds = *seconds;
      const std::string& precision = csv.text(row, "precision");
      const bool fp32 = precision.find("fp32") != std::string::npos;
      const Layout layout{.tp = integer(csv, row, "tp"),
                          .pp = integer(csv, row, "pp"),
                          .dp = integer(csv, row, "dp"),
                          .zero = integer(csv, row, "zero_stage"),
                          .micro_batch = csv.need(row, "mbs"),
                          .global_batch = csv.need(row, "gbs")};
      const Dimensions model{.layers = integer(csv, row, "layers"),
                             .hidden = integer(csv, row, "hidden"),
                             .heads = integer(csv, row, "heads"),
                             .vocab = vocabulary(csv.text(row, "vocab"), layout.tp),
                             .seq_len = integer(csv, row, "seq")};
      Practice practice = megatron(true);
      practice.splits_transfers = false;
      practice.blocks_launches = true;  // its scripts export CUDA_LAUNCH_BLOCKING=1
      run.candidates.emplace_back(job_of(model, layout, Again::kEverything, fp32,
                                         precision.find("counted as a layer") != std::string::npos),
                                  practice);
      run.scale =
          layout.global_batch / static_cast<double>(run.candidates.front().job().run.global_batch);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> megascale_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    Run run{.row = fmt::format("{} {} {} GPUs", csv.text(row, "method"), csv.text(row, "model"),
                               csv.text(row, "gpus")),
            .group = csv.text(row, "global_batch"),
            .lines = {csv.line(row)},
            .cluster = "megascale",
            .gpus = integer(csv, row, "gpus")};
    const auto seconds = csv.number(row, "iter_time_s");
    if (csv.text(row, "method") != "Megatron-LM")
      run.unscored = "MegaScale changes the model";
    else if (!seconds)
      run.unscored = "no time";
    if (run.unscored.empty()) {
      run.seconds = *seconds;
      const Layout layout{.tp = integer(csv, row, "tp"),
                          .pp = integer(csv, row, "pp"),
                          .chunks = integer(csv, row, "interleave_v"),
                          .dp = integer(csv, row, "dp"),
                          .zero = 1,
                          .sequence_parallel = true,
                          .micro_batch = 1,
                          .global_batch = csv.need(row, "global_batch")};
      Practice practice = megatron(false);
      practice.attention = AttentionKernel::kFlash;
      practice.tensor = TensorOverlap::kBackward;
      run.candidates.emplace_back(job_of(gpt(csv, row), layout, Again::kNothing, true), practice);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// Megatron-Core overlaps reductions, and has fused attention. Micro-batch and chunks are not printed.
std::vector<Run> megatron_core_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    Run run{.row = fmt::format("{}B {} GPUs", csv.text(row, "params_B"), csv.text(row, "gpus")),
            .group = csv.text(row, "params_B"),
            .lines = {csv.line(row)},
            .cluster = "dgx-h100",
            .gpus = integer(csv, row, "gpus")};
    const auto rate = csv.number(row, "tflops_per_gpu");
    const auto tp = csv.number(row, "tp");
    if (!rate) run.unscored = "no rate";
    if (run.unscored.empty()) {
      const Dimensions model = gpt(csv, row);
      const double batch = csv.need(row, "global_batch");
      const auto d = static_cast<double>(model.hidden), layers = static_cast<double>(model.layers),
                 seq = static_cast<double>(model.seq_len), vocab = static_cast<double>(model.vocab);
      const double flops =
          72 * batch * layers * seq * d * d * (1 + seq / (6 * d) + vocab / (12 * d * layers));
      run.seconds = flops / (*rate * 1e12 * run.gpus);
      // Strong scaling keeps the cut of the model that its row in the table of weak scaling has.
      Layout layout{.tp = tp ? static_cast<int>(*tp) : 8,
                    .pp = tp ? integer(csv, row, "pp") : 6,
                    .zero = 1,
                    .sequence_parallel = true,
                    .global_batch = batch};
      layout.dp = run.gpus / (layout.tp * layout.pp);
      layout.sequence_parallel = layout.tp > 1;
      const Practice practice{.attention = AttentionKernel::kFlash2,
                              .fusion = Fusion::kKernels,
                              .dropout = true,
                              .adds_weight_gradients = false,
                              .overlaps_reduction = true,
                              .overlaps_gathers = true,
                              .tensor = TensorOverlap::kEverything,
                              .overlaps_transfers = true};
      run.candidates = open_settings(model, layout, Again::kNothing, true, practice, {1, 2, 4}, 28);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::planner::tables
