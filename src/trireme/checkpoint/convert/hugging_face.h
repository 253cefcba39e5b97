// Checkpoints to and from what Hugging Face's transformers read and write: config.json and safetensors, for families gpt,
// llama, vit, clip, jepa, probe, vlm and hnet, whose config.json is that of its reference code.
#pragma once

#include <set>
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

// The files of tensors that a model.safetensors.index.json names, beside it. Throws Error{kData}.
std::set<std::string> files_of_index(const std::string& text, const std::string& what);

// The tensors that to_hugging_face writes of a checkpoint of this resolved job, by name: their types are those in which it
// keeps parameters. Throws Error{kUsage} as hugging_face_config and for a model with adapters.
std::vector<formats::TensorInfo> hugging_face_tensors(const config::Job& job,
                                                      const model::ModelSpec& model);
// The same of a checkpoint, whose types are its own. Throws Error{kData} too.
std::vector<formats::TensorInfo> hugging_face_tensors(const Path& checkpoint,
                                                      const config::Job& job,
                                                      const model::ModelSpec& model);

// Writes config.json, model.safetensors and, for a family that sees, preprocessor_config.json with the parameters of the checkpoint, in the type they are kept in, into a new
// directory, one tensor in memory at a time. `job` is the checkpoint's and `model` its description. Gives the names of
// parameters that have no place there. Throws Error{kData}, or Error{kUsage} as hugging_face_config and for a model with
// adapters, or a checkpoint of what trains alone.
std::vector<std::string> to_hugging_face(const Path& checkpoint, const config::Job& job,
                                         const model::ModelSpec& model, const Path& out);

// Writes OUT/step-0 with the parameters alone, of fp32, for model.weights, one parameter in memory at a time. `vocabulary`
// is the digest of their tokenizer, empty where it is not known. Gives its path.
Path from_hugging_face(const HuggingFaceWeights& weights, const std::string& vocabulary,
                       const std::string& build, const Path& out);

}  // namespace trireme::convert
