// Memory runs: what the rows of published runs say of models, ranks and systems, as far as memory asks.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "bench/scoreboard/registry.h"
#include "bench/scoreboard/stage_memory.h"

namespace trireme::scoreboard {

// What a row reports of memory.
enum class View {
  kNone,       // only that it ran, or did not
  kAllocator,  // what the allocator held at most, in GiB
  kDevice      // nvidia-smi's, in thousands of MiB
};

struct MemoryRun {
  std::string row;
  std::string group;
  std::size_t line = 0;
  Decoder model;
  Split split;
  MemoryPractice practice;
  double capacity = 0;  // bytes of the device that programs can have
  View view = View::kNone;
  double measured = 0;  // in the unit of the view
  bool ran = true;
  std::string unscored;  // what the row lacks
};

// "no mbs" for the first of `columns` without a number in the row; nothing where all have one.
std::string lacking(const Csv& csv, std::size_t row, std::initializer_list<const char*> columns);

// Of a row of BLOOM's: its tokenizer's entries, padded as --pad-vocab-size-to has it, which the table prints as 250k.
std::int64_t bloom_vocabulary(const Csv& csv, std::size_t row);

// Of BigScience's first runs, by their size: 8192 wide, with 32 heads.
Decoder v100_model(double billions);

// And what its precision says; a row with another text is refused.
struct BloomPrecision {
  bool sums_fp32 = false;           // bf16, with gradients summed in fp32
  bool embedding_is_layer = false;  // when layers are dealt to stages
};
BloomPrecision bloom_precision(const Csv& csv, std::size_t row);

// Of a name such as "Llama3.1-8B"; of torchtitan's rows "FSDP 4, CP 2, TP 8" and which checkpoints; nothing: not known.
std::optional<Decoder> llama_of(const std::string& name);
Split titan_split(const Csv& csv, std::size_t row);
std::optional<Keeps> titan_keeps(const std::string& text);

std::vector<MemoryRun> bloom_memory_runs(const Csv& csv);
std::vector<MemoryRun> bigscience_memory_runs(const Csv& csv);
std::vector<MemoryRun> torchtitan_memory_runs(const Csv& csv);
std::vector<MemoryRun> mosaicml_memory_runs(const Csv& csv);

// "memory" of the runs that report it, with the band that holds 80 of 100.
inline constexpr const char* kMemoryQuantity = "memory";
std::vector<Case> memory_cases(const std::vector<MemoryRun>& runs,
                               const MemoryConstants& constants = {});
// Of runs in nvidia-smi's view, with constants that were fitted on the other groups.
std::vector<Case> memory_left_out(const std::vector<MemoryRun>& runs);

// Of each run whether it fits, 1 or 0: those that ran, and those that did not.
inline constexpr const char* kRanQuantity = "fits, of runs that ran";
inline constexpr const char* kFailedQuantity = "fits, of runs that failed";
std::vector<Case> fits_cases(const std::vector<MemoryRun>& runs);

// `holes` and `communicator` of least mean absolute percentage error over runs in nvidia-smi's view.
MemoryConstants fit_memory(const std::vector<MemoryRun>& runs);

// DeepSpeed as BigScience ran it: fp16 with ZeRO 0 or 1, or bf16 with sums in fp32.
MemoryPractice deepspeed_practice(int zero, bool bf16);

// The largest model, in parameters, of layers a fortieth as many as it is wide that fits in `capacity`; 0: none.
double largest_model(Split split, const MemoryPractice& practice, double vocab, double capacity,
                     const MemoryConstants& constants = {});

// Of a claim about offload that the model can say something about.
inline constexpr const char* kOffloadQuantity = "size";
std::vector<Case> offload_cases(const std::string& system, const std::string& claim,
                                const std::string& value);

// What nvidia-smi shows as the whole of a device that is sold as so many GB, in bytes.
double device_bytes(int gigabytes);

}  // namespace trireme::scoreboard
