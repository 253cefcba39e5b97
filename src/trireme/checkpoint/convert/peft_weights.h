// Low-rank adapters as Hugging Face's PEFT keeps them, and their model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/checkpoint/convert/adapter_tensors.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/job.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

// Whether a directory has an adapter_config.json and is no checkpoint.
bool is_peft(const Path& directory);
// Throws Error{kData} for such a directory, where a model is needed.
void refuse_peft(const Path& directory);

// adapter_config.json, as far as a job says it.
struct PeftConfig {
  config::Lora lora;                 // except its targets, which the tensors show
  std::string base;                  // base_model_name_or_path
  std::vector<std::string> targets;  // target_modules, if they are a list of names
  // Ranks and alphas of layers that have their own, by patterns of their names.
  std::map<std::string, std::int64_t> ranks;
  std::map<std::string, double> alphas;
};
// Throws Error{kData} naming a kind of adapter that a job cannot describe.
PeftConfig peft_config(const std::string& text, const std::string& what);

// A model of Hugging Face's files with adapters of PEFT's. Files are mapped: one parameter is in memory at a time.
class PeftWeights {
 public:
  // Without `base`, the model lies where adapter_config.json says. Throws Error{kData} as HuggingFaceWeights, for a base
  // that is not there, and naming a tensor that is missing, of another shape, or more than lora.targets allows.
  explicit PeftWeights(const Path& directory, const Path& base = {});

  // The job of the base with lora.*, resolved.
  const config::Job& job() const { return job_; }
  const model::ModelSpec& model() const { return *model_; }
  const Path& base() const { return base_path_; }
  // The elements of a parameter of model() in fp32.
  std::vector<std::byte> read(const model::ParamSpec& param) const;

 private:
  PeftWeights(const Path& directory, const Path& base, const PeftConfig& config);
  void choose_targets(const PeftConfig& config);
  void add_adapters(const PeftConfig& config);
  using Shapes = std::map<std::string, std::vector<std::int64_t>>;
  [[noreturn]] void refuse_tensors(const Shapes& there, const Shapes& of_all) const;
  // That the layer of an adapter has the rank and the scale of the job, and that each of ours reads its own A alone.
  void check_scale(const PeftConfig& config, const AdapterTensor& tensor) const;
  void check_patterns(const PeftConfig& config, const std::set<std::string>& layers) const;
  void check_blocks(const AdapterTensor& adapter, const formats::Tensor& tensor) const;

  Path directory_, base_path_;
  formats::SafetensorsFile file_;
  HuggingFaceWeights base_;
  config::Job job_;
  std::shared_ptr<const model::ModelSpec> model_;  // whose parameters the tensors name
  std::vector<AdapterTensor> tensors_;
  std::map<std::string, std::pair<std::size_t, std::size_t>>
      adapters_;  // by our names: a tensor and its piece
};

}  // namespace trireme::convert
