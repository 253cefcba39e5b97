#include "memory_jobs.h"

#include <fmt/format.h>

#include "trireme/config/fields/fields.h"
#include "trireme/config/resolve/resolve.h"

namespace trireme::app {
namespace {

using Sets = std::vector<std::string>;

const std::pair<const char*, Sets> kSizes[] = {
    {"gpt_tiny", {"model.vocab=256"}},
    {"llama_tiny", {"model.family=llama", "model.kv_heads=2", "model.vocab=256"}},
    {"gpt_s",
     {"model.layers=6", "model.hidden=384", "model.heads=6", "model.seq_len=256",
      "model.vocab=256"}},
    {"llama_s",
     {"model.family=llama", "model.layers=6", "model.hidden=384", "model.heads=6",
      "model.kv_heads=2", "model.seq_len=256", "model.vocab=1024", "model.tied=false"}},
    {"gpt_30m",
     {"model.layers=6", "model.hidden=512", "model.heads=8", "model.seq_len=128",
      "model.vocab=16384"}},
    {"gpt_m",
     {"model.layers=12", "model.hidden=768", "model.heads=12", "model.seq_len=64",
      "model.vocab=50257"}},
};

constexpr std::int64_t kJobMicroBatches = 4;  // of a rank and step

struct JobLayout {
  const char* size;
  int world;
  Sets sets;
};

// Keys without their section.
const JobLayout kLayouts[] = {
    {"gpt_tiny", 1, {}},
    {"gpt_tiny", 1, {"compute=bf16", "micro_batch=8"}},
    {"gpt_tiny", 2, {"zero=3"}},
    {"gpt_tiny", 2, {"tp=2", "micro_batch=4"}},
    {"llama_tiny", 1, {"micro_batch=4"}},
    {"llama_tiny", 4, {"zero=2", "compute=bf16"}},
    {"gpt_s", 1, {}},
    {"gpt_s", 1, {"micro_batch=8"}},
    {"gpt_s", 1, {"micro_batch=4", "policy=full"}},
    {"gpt_s", 1, {"micro_batch=4", "logits=true"}},
    {"gpt_s", 1, {"micro_batch=2", "dropout=0.1"}},
    {"gpt_s", 1, {"compute=bf16", "micro_batch=4"}},
    {"gpt_s", 1, {"compute=bf16", "micro_batch=2", "numerics=fast"}},
    {"gpt_s", 1, {"compute=bf16", "master=bf16", "numerics=fast", "micro_batch=2"}},
    {"gpt_s", 1, {"compute=fp16", "micro_batch=2"}},
    {"gpt_s", 1, {"states=int8", "micro_batch=2"}},
    {"gpt_s", 1, {"policy=selective", "parts=norms,mlp", "micro_batch=4"}},
    {"gpt_s", 1, {"policy=full", "every=2", "micro_batch=4"}},
    {"gpt_s", 1, {"rank=8", "micro_batch=4"}},
    {"gpt_s", 1, {"optimizer=host", "micro_batch=2"}},
    {"gpt_s", 1, {"optimizer=nvme", "micro_batch=2"}},
    {"gpt_s", 1, {"optimizer=nvme", "params=nvme", "offload.grads=nvme", "micro_batch=4"}},
    {"gpt_s", 1, {"policy=full", "activations=nvme", "micro_batch=4"}},
    {"gpt_s", 2, {"zero=3", "optimizer=nvme", "params=nvme", "micro_batch=2"}},
    {"gpt_s", 2, {"zero=0", "micro_batch=2"}},
    {"gpt_s", 2, {"zero=1", "micro_batch=2"}},
    {"gpt_s", 2, {"zero=2", "micro_batch=2"}},
    {"gpt_s", 2, {"zero=3", "micro_batch=2", "policy=full"}},
    {"gpt_s", 4, {"zero=3", "compute=bf16", "micro_batch=2"}},
    {"gpt_s", 4, {"zero=3", "dp_replicate=2"}},
    {"gpt_s", 2, {"tp=2", "micro_batch=2"}},
    {"gpt_s", 2, {"tp=2", "micro_batch=2", "compute=bf16", "sequence_parallel=false"}},
    {"gpt_s", 2, {"cp=2", "micro_batch=2"}},
    {"gpt_s", 2, {"cp=2", "micro_batch=2", "context=ulysses", "compute=bf16"}},
    {"gpt_s", 2, {"cp=2", "micro_batch=2", "context=all_gather"}},
    {"gpt_s", 2, {"pp=2"}},
    {"gpt_s", 2, {"pp=2", "schedule=gpipe", "policy=full"}},
    {"gpt_s", 2, {"pp=2", "schedule=zb_h1", "compute=bf16"}},
    {"gpt_s", 2, {"pp=2", "schedule=interleaved", "virtual_stages=2"}},
    {"llama_s", 1, {"micro_batch=4"}},
    {"llama_s", 1, {"micro_batch=2", "compute=bf16", "policy=full"}},
    {"llama_s", 2, {"tp=2", "micro_batch=4", "zero=1"}},
    {"llama_s", 2, {"cp=2", "micro_batch=2"}},
    {"llama_s", 2, {"pp=2", "schedule=zb_v"}},
    {"gpt_30m", 1, {"micro_batch=4"}},
    {"gpt_30m", 2, {"zero=1", "compute=bf16", "micro_batch=4"}},
    {"gpt_30m", 4, {"zero=3", "micro_batch=2"}},
    {"gpt_30m", 2, {"tp=2", "micro_batch=2"}},
    {"gpt_m", 1, {"micro_batch=4"}},
    {"gpt_m", 1, {"micro_batch=8", "compute=bf16", "policy=full", "logits=true"}},
    {"gpt_m", 1, {"optimizer=nvme", "compute=bf16", "micro_batch=4"}},
    {"gpt_m", 2, {"zero=3", "compute=bf16", "micro_batch=4"}},
};

// "zero=3" as the key it is.
std::string key_of(const std::string& set) {
  for (const char* section :
       {"model", "parallel", "run", "precision", "recompute", "optim", "lora", "offload"}) {
    const std::string key = fmt::format("{}.{}", section, set);
    if (config::find_field(key.substr(0, key.find('='))) != nullptr) return key;
  }
  return set;
}

}  // namespace

std::vector<MemoryJob> memory_jobs() {
  std::vector<MemoryJob> jobs;
  for (const JobLayout& layout : kLayouts) {
    MemoryJob one{.name = layout.size, .world = layout.world};
    for (const auto& [size, sets] : kSizes)
      if (one.name == size)
        for (const std::string& set : sets) config::apply_set(one.job, set);
    for (const std::string& set : layout.sets) {
      config::apply_set(one.job, key_of(set));
      one.name += " " + set;
    }
    const config::Parallel& spread = one.job.parallel;
    one.job.run.global_batch = kJobMicroBatches * one.job.run.micro_batch * one.world /
                               (spread.tp * spread.cp * spread.pp);
    one.job = config::resolve(one.job, one.world, {});
    jobs.push_back(std::move(one));
  }
  return jobs;
}

}  // namespace trireme::app
