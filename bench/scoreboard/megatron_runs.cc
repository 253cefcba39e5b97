// Megatron-LM and its relatives: tensor, pipeline and data parallel runs.
#include <fmt/core.h>

#include <cmath>

#include "bench/scoreboard/closed_forms.h"
#include "bench/scoreboard/runs.h"
#include "trireme/base/error.h"

namespace trireme::scoreboard {
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
  const auto whole = [&](const char* column) { return csv.count(row, column); };
  return {.layers = whole("layers"),
          .hidden = whole("hidden"),
          .heads = whole("heads"),
          .vocab = whole("vocab"),
          .seq_len = whole("seq")};
}

GptShape shape_of(const Dimensions& model) {
  return {.layers = static_cast<double>(model.layers),
          .hidden = static_cast<double>(model.hidden),
          .heads = static_cast<double>(model.heads),
          .sequence = static_cast<double>(model.seq_len),
          .vocabulary = static_cast<double>(model.vocab)};
}

std::optional<RecomputePolicy> recompute_of(const std::string& text) {
  if (text == "full") return RecomputePolicy::kFull;
  if (text == "selective") return RecomputePolicy::kSelective;
  if (text == "no") return RecomputePolicy::kNone;
  return std::nullopt;
}

// Settings that a row leaves open: those of these that the layout can have.
std::vector<Candidate> open_settings(const Dimensions& model, PrintedLayout layout,
                                     RecomputePolicy recompute, bool fp32_gradients,
                                     const Practice& practice,
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
      candidates.emplace_back(job_of(model, layout, recompute, fp32_gradients), practice);
    }
  if (candidates.empty())
    fail(ErrorKind::kData,
         "a batch of {:g} over dp {} and pp {} has no micro-batch and chunks that divide",
         layout.global_batch, layout.dp, layout.pp);
  return candidates;
}

}  // namespace

Practice megatron_2021() { return megatron(true); }

std::vector<Run> korthikanti_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& mode = csv.text(row, "mode");
    const bool sequence = mode.ends_with("_plus_SP");
    const std::string recompute_text = mode.substr(0, mode.find("_recompute"));
    const std::optional<RecomputePolicy> recompute = recompute_of(recompute_text);
    if (!recompute || (!sequence && !mode.ends_with("_no_SP"))) csv.unknown(row, "mode");
    const PrintedLayout layout{.tp = csv.count(row, "tp"),
                               .pp = csv.count(row, "pp"),
                               .chunks = csv.count(row, "interleave_v"),
                               .dp = csv.count(row, "dp"),
                               .sequence_parallel = sequence,
                               .micro_batch = static_cast<double>(csv.count(row, "microbatch")),
                               .global_batch = csv.need(row, "global_batch")};
    Run run{.row = csv.text(row, "model") + " " + mode,
            .group = csv.text(row, "model"),
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = csv.count(row, "gpus"),
            .seconds = csv.need(row, "iter_time_s")};
    Practice practice = megatron(false);
    practice.tensor = TensorOverlap::kBackward;
    add_setting(run, gpt(csv, row), layout, *recompute, true, practice);
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
    const bool sequence = says("equence"), selective = says("elective");
    const bool plain = says("no recompute") || experiment == "Sequence Parallelism";
    const bool full = says("with recompute");
    if (selective + plain + full != 1) csv.unknown(row, "experiment");
    const PrintedLayout layout{
        .tp = 8, .sequence_parallel = sequence, .micro_batch = 4, .global_batch = 4};
    Practice practice = megatron(false);
    practice.tensor = TensorOverlap::kBackward;
    const RecomputePolicy recompute = selective ? RecomputePolicy::kSelective
                                      : full    ? RecomputePolicy::kFull
                                                : RecomputePolicy::kNone;
    Run run{.row = experiment + ", forward",
            .group = "22B",
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = 8,
            .timed = Timed::kForward,
            .seconds = csv.need(row, "forward_ms") / 1e3};
    add_setting(run, kModel, layout, recompute, true, practice);
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
    const PrintedLayout layout{.tp = csv.count(row, "tp"),
                               .pp = csv.count(row, "pp"),
                               .dp = csv.count(row, "dp"),
                               .global_batch = csv.need(row, "global_batch")};
    Run run{.row = csv.text(row, "params_B") + "B",
            .group = csv.text(row, "params_B") + "B",
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = csv.count(row, "gpus"),
            .seconds = csv.need(row, "derived_iter_time_s")};
    run.candidates = open_settings(gpt(csv, row), layout, RecomputePolicy::kFull, false,
                                   megatron(true), {1, 2, 4, 8, 16}, 6);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> sc21_zero3_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& scheme = csv.text(row, "scheme");
    const bool zero3 = scheme == "ZeRO-3";
    if (!zero3 && scheme != "PTD-P") csv.unknown(row, "scheme");
    Practice practice = megatron(true);
    if (zero3) practice.overlaps_shards = false;
    const PrintedLayout layout{.tp = csv.count(row, "tp"),
                               .pp = csv.count(row, "pp"),
                               .dp = csv.count(row, "dp"),
                               .zero = zero3 ? 3 : 0,
                               .micro_batch = static_cast<double>(csv.count(row, "microbatch")),
                               .global_batch = csv.need(row, "global_batch")};
    Run run{.row = fmt::format("{} {}B {} GPUs", csv.text(row, "scheme"), csv.text(row, "params_B"),
                               csv.text(row, "gpus")),
            .group = csv.text(row, "scheme"),
            .lines = {csv.line(row)},
            .cluster = "selene",
            .gpus = csv.count(row, "gpus"),
            .seconds = csv.need(row, "derived_iter_time_s")};
    const Dimensions model = gpt(csv, row);
    if (zero3) run.apart = "ZeRO-3";  // DeepSpeed's of 2021, for which nobody has a model
    if (zero3)
      add_setting(run, model, layout, RecomputePolicy::kFull, false, practice);
    else
      run.candidates = open_settings(model, layout, RecomputePolicy::kFull, false, practice,
                                     {static_cast<int>(layout.micro_batch)}, 4);
    runs.push_back(std::move(run));
  }
  return runs;
}

namespace {

// And what its precision says; a row with another text is refused.
struct BloomPrecision {
  bool sums_fp32 = false;           // bf16, with gradients summed in fp32
  bool embedding_is_layer = false;  // when layers are dealt to stages
};
BloomPrecision bloom_precision(const Csv& csv, std::size_t row) {
  const std::string& precision = csv.text(row, "precision");
  const bool bf16 = precision.starts_with("bf16");
  if (!bf16 && precision != "fp16") csv.unknown(row, "precision");
  return {.sums_fp32 = bf16,
          .embedding_is_layer = precision.find("counted as a layer") != std::string::npos};
}

// Its tokenizer's entries, padded as --pad-vocab-size-to has it, which the table prints as 250k.
std::int64_t bloom_vocabulary(const Csv& csv, std::size_t row) {
  if (csv.text(row, "vocab") == "250k") return 250880;
  return csv.count(row, "vocab");
}

}  // namespace

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
            .gpus = csv.count(row, "gpus")};
    const auto seconds = csv.number(row, "sec_per_iter");
    if (csv.text(row, "complete") != "1") {
      run.unscored = "the row does not give all of the layout";
    } else {
      if (!seconds) run.unscored = csv.text(row, "oom") == "1" ? "out of memory" : "no time";
      run.seconds = seconds.value_or(0);
      const BloomPrecision precision = bloom_precision(csv, row);
      const PrintedLayout layout{.tp = csv.count(row, "tp"),
                                 .pp = csv.count(row, "pp"),
                                 .dp = csv.count(row, "dp"),
                                 .zero = static_cast<int>(csv.need(row, "zero_stage")),
                                 .micro_batch = static_cast<double>(csv.count(row, "mbs")),
                                 .global_batch = csv.need(row, "gbs")};
      const Dimensions model{.layers = csv.count(row, "layers"),
                             .hidden = csv.count(row, "hidden"),
                             .heads = csv.count(row, "heads"),
                             .vocab = bloom_vocabulary(csv, row),
                             .seq_len = csv.count(row, "seq")};
      Practice practice = megatron(true);
      practice.splits_transfers = false;
      practice.blocks_launches = true;  // its scripts export CUDA_LAUNCH_BLOCKING=1
      add_setting(run, model, layout, RecomputePolicy::kFull, precision.sums_fp32, practice,
                  precision.embedding_is_layer);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<Run> megascale_runs(const Csv& csv) {
  constexpr double kA100 = 312e12;  // what its MFU divides by
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& method = csv.text(row, "method");
    Run run{
        .row = fmt::format("{} {} {} GPUs", method, csv.text(row, "model"), csv.text(row, "gpus")),
        .group = csv.text(row, "model"),
        .lines = {csv.line(row)},
        .cluster = "megascale"};
    if (method != "Megatron-LM")
      run.unscored = "MegaScale changes the model";
    else if (!csv.number(row, "dp"))
      run.unscored = "the row does not give all of the layout";
    if (run.unscored.empty()) {
      run.gpus = csv.count(row, "gpus");
      const Dimensions model = gpt(csv, row);
      const PrintedLayout layout{.tp = csv.count(row, "tp"),
                                 .pp = csv.count(row, "pp"),
                                 .chunks = csv.count(row, "interleave_v"),
                                 .dp = csv.count(row, "dp"),
                                 .zero = 1,
                                 .sequence_parallel = true,
                                 .micro_batch = 1,
                                 .global_batch = csv.need(row, "global_batch")};
      const auto seconds = csv.number(row, "iter_time_s");
      if (!seconds) run.apart = "from MFU";  // which says less than a clock
      run.seconds = seconds ? *seconds
                            : gpt_model_flops(shape_of(model), layout.global_batch) /
                                  (0.01 * csv.need(row, "mfu_pct") * kA100 * run.gpus);
      Practice practice = megatron(false);
      practice.tensor = TensorOverlap::kBackward;
      add_setting(run, model, layout, RecomputePolicy::kSelective, true, practice);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

// How a row's model is cut. Strong scaling keeps the cut of the model that the README's weak scaling has: 177B on 8 x 6.
std::pair<int, int> core_cut(const Csv& csv, std::size_t row) {
  if (csv.number(row, "tp")) return {csv.count(row, "tp"), csv.count(row, "pp")};
  if (csv.need(row, "params_B") != 177) csv.unknown(row, "tp");
  return {8, 6};
}

// Megatron-Core overlaps reductions, and has fused attention. Micro-batch and chunks are not printed.
std::vector<Run> megatron_core_runs(const Csv& csv) {
  std::vector<Run> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    Run run{.row = fmt::format("{}B {} GPUs", csv.text(row, "params_B"), csv.text(row, "gpus")),
            .group = csv.text(row, "params_B"),
            .lines = {csv.line(row)},
            .cluster = "dgx-h100",
            .gpus = csv.count(row, "gpus")};
    const auto rate = csv.number(row, "tflops_per_gpu");
    if (!rate) run.unscored = "no rate";
    if (run.unscored.empty()) {
      const Dimensions model = gpt(csv, row);
      const double batch = csv.need(row, "global_batch");
      run.seconds = gpt_model_flops(shape_of(model), batch) / (*rate * 1e12 * run.gpus);
      const auto [tp, pp] = core_cut(csv, row);
      if (run.gpus % (tp * pp) != 0) csv.unknown(row, "gpus");
      const PrintedLayout layout{.tp = tp,
                                 .pp = pp,
                                 .dp = run.gpus / (tp * pp),
                                 .zero = 1,
                                 .sequence_parallel = tp > 1,
                                 .global_batch = batch};
      const Practice practice{.attention = AttentionKernel::kFlash2,
                              .fusion = Fusion::kKernels,
                              .dropout = true,
                              .adds_weight_gradients = false,
                              .overlaps_reduction = true,
                              .overlaps_gathers = true,
                              .tensor = TensorOverlap::kEverything,
                              .overlaps_transfers = true};
      run.candidates =
          open_settings(model, layout, RecomputePolicy::kNone, true, practice, {1, 2, 4}, 28);
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::scoreboard
