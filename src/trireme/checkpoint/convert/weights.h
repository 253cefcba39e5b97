// Initial weights of a model from any source: a checkpoint, or a directory of Hugging Face's files.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/data/text/tokenizer.h"
#include "trireme/formats/manifest.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

struct Names;

inline constexpr char kConfigName[] = "config.json";
inline constexpr char kModelName[] = "model.safetensors";

// Throws Error{kData} for a link whose target is missing.
bool is_there(const Path& file);

// Throws Error{kData}, with a way out, where the first of these files is there: tensors as Python pickles.
void refuse_pickles(const Path& directory, std::initializer_list<const char*> names);

// Whether a directory has a config.json and is no checkpoint.
bool is_hugging_face(const Path& directory);

// Parameters of a directory of Hugging Face's files by our names. Files are mapped: one parameter is in memory at a time.
class HuggingFaceWeights {
 public:
  // Reads config.json. Throws Error{kData} for a class that no family here is, and as the other constructor.
  explicit HuggingFaceWeights(const Path& directory);
  // Weights of a resolved job's model. Throws Error{kData} naming tensors that are missing, of another shape or more
  // than the model has.
  HuggingFaceWeights(const Path& directory, config::Job job);
  ~HuggingFaceWeights();
  HuggingFaceWeights(HuggingFaceWeights&&) noexcept;

  // Resolved.
  const config::Job& job() const { return job_; }
  const model::ModelSpec& model() const { return model_; }
  // Whose names the files have: a class of models, or a form of publishing.
  std::string_view names() const;
  const Names& table() const;
  // Type of the tensor that a parameter of model() is in.
  DType type(const model::ParamSpec& param) const;
  // The elements of a parameter of model() in fp32.
  std::vector<std::byte> read(const model::ParamSpec& param) const;

 private:
  class Tensors;

  config::Job job_;
  model::ModelSpec model_;
  std::unique_ptr<Tensors> tensors_;
};

// Manifest of weights: that of a checkpoint; for Hugging Face's files one of step 0 with job and units alone. Throws
// Error{kData} for a directory that is neither.
formats::Manifest manifest_of_weights(const Path& directory);

// Vocabulary in the directory of the weights of a job. For an H-Net in Hugging Face's form without one: bytes, with 254
// before a text and 255 after it, as published. Throws Error{kData} for one that cannot be read, and for ids that the model
// does not have.
std::optional<text::Tokenizer> vocabulary_of_weights(const Path& directory, const config::Job& job);

// Identity of weights: a digest of a checkpoint's manifest, or of all bytes of Hugging Face's files.
std::string identity_of_weights(const Path& directory);

}  // namespace trireme::convert
