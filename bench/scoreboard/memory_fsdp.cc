// FSDP: torchtitan's Llamas with their peak memory, and MosaicML's MPT, of which is known that they ran.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "bench/scoreboard/memory_runs.h"
#include "bench/scoreboard/runs.h"

namespace trireme::scoreboard {
namespace {

struct Named {
  const char* name;
  Decoder model;
};
// Llama 2 and 3, Touvron et al. 2023 and Dubey et al. 2024.
const Named kLlamas[] = {
    {"Llama2-13B", {40, 5120, 40, 40, 13824, 32000, true, false}},
    {"Llama2-34B", {48, 8192, 64, 8, 22016, 32000, true, false}},
    {"Llama2-70B", {80, 8192, 64, 8, 28672, 32000, true, false}},
    {"Llama2-7B", {32, 4096, 32, 32, 11008, 32000, true, false}},
    {"-8B", {32, 4096, 32, 8, 14336, 128256, true, false}},
    {"-70B", {80, 8192, 64, 8, 28672, 128256, true, false}},
    {"-405B", {126, 16384, 128, 8, 53248, 128256, true, false}},
};

}  // namespace

std::optional<Decoder> llama_of(const std::string& name) {
  for (const Named& one : kLlamas)
    if (name.find(one.name) != std::string::npos) return one.model;
  return std::nullopt;
}

// "FSDP 4, CP 2, TP 8, PP 8", which together are the GPUs.
Split titan_split(const Csv& csv, std::size_t row) {
  Split split;
  int fsdp = 1, together = 1;
  const std::map<std::string_view, int*> names = {
      {"FSDP", &fsdp}, {"CP", &split.cp}, {"TP", &split.tp}, {"PP", &split.pp}};
  std::string_view text = csv.text(row, "parallelism");
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    const std::size_t space = part.find(' ');
    const auto name = names.find(part.substr(0, space));
    const auto degree = space == part.npos ? std::nullopt : number_of(part.substr(space + 1));
    if (name == names.end() || !degree || *degree < 1 || *degree > 1e6 ||
        *degree != std::floor(*degree))
      csv.unknown(row, "parallelism");
    *name->second = static_cast<int>(*degree);
    together *= *name->second;
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    while (text.starts_with(' ')) text.remove_prefix(1);
  }
  if (together != csv.count(row, "gpus")) csv.unknown(row, "parallelism");
  split.dp = fsdp * split.cp;
  return split;
}

namespace {

bool contains(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::optional<Keeps> titan_keeps(const std::string& text) {
  if (text == "full") return Keeps::kInputs;
  if (text == "no" || text == "none") return Keeps::kAll;
  if (text == "selective layer") return Keeps::kAlternate;
  if (text.starts_with("selective") || text.starts_with("per-op")) return Keeps::kOperators;
  return std::nullopt;
}

namespace {

double titan_device(const std::string& hardware) {
  if (contains(hardware, "H200")) return device_bytes(141);
  if (contains(hardware, "A100")) return device_bytes(80);
  return contains(hardware, "95GB") || contains(hardware, "96GB") ? device_bytes(96)
                                                                  : device_bytes(80);
}

MemoryPractice titan_practice(const Csv& csv, std::size_t row, const Split& split) {
  const bool compiled =
      csv.text(row, "compile") == "1" || contains(csv.text(row, "technique"), "compile");
  MemoryPractice practice{.zero = 3,
                          .gathered_all_step = split.pp > 1,
                          .keeps = *titan_keeps(csv.text(row, "activation_ckpt")),
                          .fused = compiled,
                          .expandable = true};
  if (split.tp > 1) {  // loss parallel on DTensors: five fp32 copies where one device has three
    practice.loss = 18;
    practice.loss_live = 16;
  } else if (compiled && contains(csv.text(row, "source"), "2025")) {  // compiles the loss as well
    practice.loss = 6;
    practice.loss_live = 6;
  }
  return practice;
}

}  // namespace

std::vector<MemoryRun> torchtitan_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string &name = csv.text(row, "model"), &memory = csv.text(row, "memory_GiB");
    MemoryRun run{.row = fmt::format("{} {} {} seq {} {}", csv.text(row, "table"), name,
                                     csv.text(row, "parallelism"), csv.text(row, "seq"),
                                     csv.text(row, "technique")),
                  .group = csv.text(row, "table"),
                  .line = csv.line(row)};
    run.ran = memory != "OOM" && csv.text(row, "tokens_s_gpu") != "OOM";
    const auto model = llama_of(name);
    const auto sequence = csv.number(row, "seq"), batch = csv.number(row, "local_batch");
    if (!model || !sequence || !batch || !titan_keeps(csv.text(row, "activation_ckpt"))) {
      run.unscored = "model, sequence, batch or checkpoints are not known";
      runs.push_back(std::move(run));
      continue;
    }
    run.model = *model;
    run.split = titan_split(csv, row);
    Split& split = run.split;
    split.sequence_parallel = split.tp > 1;
    split.chunks = split.pp > 1 && contains(csv.text(row, "technique"), "nterleaved") ? 2 : 1;
    split.sequence = *sequence;
    // As many micro-batches as stages, torchtitan's default.
    split.micro_batches = split.pp > 1 ? std::min(split.pp, static_cast<int>(*batch)) : 1;
    split.micro_batch = *batch / split.micro_batches;
    run.practice = titan_practice(csv, row, split);
    run.capacity = titan_device(csv.text(row, "hardware"));
    if (run.ran && !memory.empty()) {
      run.view = View::kAllocator;
      run.measured = csv.need(row, "memory_GiB");
    }
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MemoryRun> mosaicml_memory_runs(const Csv& csv) {
  std::vector<MemoryRun> runs;
  for (std::size_t row = 0; row < csv.size(); ++row) {
    const std::string& gpu = csv.text(row, "gpu");
    const bool checkpoints = csv.flag(row, "activation_ckpt");
    const MosaicGpu& device = mosaic_gpu(csv, row);
    MemoryRun run{
        .row = fmt::format("{} seq {} on {} {} mb {}", csv.text(row, "model"), csv.text(row, "seq"),
                           csv.text(row, "gpus"), gpu, csv.text(row, "microbatch")),
        .group = csv.text(row, "section"),
        .line = csv.line(row),
        .model = {.layers = csv.need(row, "layers"),
                  .hidden = csv.need(row, "hidden"),
                  .heads = csv.need(row, "heads"),
                  .vocab = csv.need(row, "vocab")},
        .split = {.dp = csv.count(row, "gpus"),
                  .sequence = csv.need(row, "seq"),
                  .micro_batch = static_cast<double>(csv.count(row, "microbatch"))},
        // Its cross entropy is one kernel that writes gradients over logits.
        .practice = {.zero = mosaic_stage(csv, row),
                     .reduced_copy = 0,  // reduced in bf16
                     .inputs_on_host = csv.flag(row, "act_cpu_offload"),
                     .keeps = checkpoints ? Keeps::kInputs : Keeps::kAll,
                     .loss = 6,
                     .loss_live = 4},
        .capacity = device_bytes(device.gigabytes)};
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace trireme::scoreboard
