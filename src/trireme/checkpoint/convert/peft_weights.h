// Low-rank adapters as Hugging Face's PEFT keeps them, and their model.
#pragma once

#include <cstddef>
#include <map>
#include <string>
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
  const model::ModelSpec& model() const { return model_; }
  const Path& base() const { return base_path_; }
  // The elements of a parameter of model() in fp32.
  std::vector<std::byte> read(const model::ParamSpec& param) const;

 private:
  PeftWeights(const Path& directory, const Path& base, const PeftConfig& config);
  void choose_targets(const PeftConfig& config);
  void add_adapters(const PeftConfig& config);

  Path directory_, base_path_;
  formats::SafetensorsFile file_;
  HuggingFaceWeights base_;
  config::Job job_;
  model::ModelSpec model_;
  std::map<std::string, const formats::Tensor*> adapters_;  // by our names
};

}  // namespace trireme::convert
