// Checkpoints to and from files of Hugging Face's transformers: config.json and safetensors. Families: gpt, llama, neox, vit,
// clip, jepa, probe, vlm and hnet (with the config.json of its reference code).
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/checkpoint/convert/weights.h"
#include "trireme/config/job.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

// config.json of a resolved job's model, as a class of theirs reads it (docs/checkpoints.md). Throws Error{kUsage} for a family without such a class, and naming the key that the class has no
// other value for.
std::string hugging_face_config(const config::Job& job);

// A job, not yet resolved, with the model that a config.json describes and the data that its family reads. Throws
// Error{kData} for a model_type and for features that no family here has.
config::Job job_of_config(const std::string& text, const std::string& what);

// The file of each tensor, by the tensor's name, as a model.safetensors.index.json in the same directory has it. Throws
// Error{kData}.
std::map<std::string, std::string> read_weight_map(const std::string& text,
                                                   const std::string& what);

// The tensors that to_hugging_face writes of a checkpoint of this resolved job, by name: their types are those in which it
// keeps parameters. Throws Error{kUsage} as hugging_face_config and for a model with adapters.
std::vector<formats::TensorInfo> hugging_face_tensors(const config::Job& job,
                                                      const model::ModelSpec& model);
// The same of a checkpoint, whose types are its own. Throws Error{kData} too.
std::vector<formats::TensorInfo> hugging_face_tensors(const Path& checkpoint,
                                                      const config::Job& job,
                                                      const model::ModelSpec& model);

// Writes config.json, model.safetensors and, for a family with images, preprocessor_config.json into a new directory.
// Parameters keep the type of the checkpoint; one tensor is in memory at a time. `job` is the checkpoint's and `model`
// its description. Returns the names of parameters that these files cannot hold. Throws Error{kData}, or Error{kUsage}
// as hugging_face_config and for a model with adapters, or a checkpoint of what trains alone.
std::vector<std::string> to_hugging_face(const Path& checkpoint, const config::Job& job,
                                         const model::ModelSpec& model, const Path& out);

// Writes OUT/step-0 of a resolved job, for model.weights: the parameters alone, in fp32, one in memory at a time.
// `vocabulary` is the digest of their tokenizer, empty where it is not known. Returns its path. Throws Error{kUsage} where
// one is already there.
using ReadParam = std::function<std::vector<std::byte>(const model::ParamSpec&)>;
Path write_weights(const config::Job& job, const model::ModelSpec& model, const ReadParam& read,
                   const std::string& vocabulary, const std::string& build, const Path& out);
Path from_hugging_face(const HuggingFaceWeights& weights, const std::string& vocabulary,
                       const std::string& build, const Path& out);

}  // namespace trireme::convert
