// Checkpoints to and from what Hugging Face's transformers read and write: config.json and safetensors, for GPT-2 and
// Llama.
#pragma once

#include <set>
#include <string>

#include "trireme/arch/spec.h"
#include "trireme/base/fs.h"
#include "trireme/config/job.h"

namespace trireme::convert {

// config.json of the model, as GPT2LMHeadModel or LlamaForCausalLM read it.
std::string hugging_face_config(const config::Model& model);

// The model that a config.json describes. Throws Error{kData} for architectures and features that neither family has.
config::Model model_of_config(const std::string& text, const std::string& what);

// The files of tensors that a model.safetensors.index.json names, beside it. Throws Error{kData}.
std::set<std::string> files_of_index(const std::string& text, const std::string& what);

// Writes config.json and model.safetensors with the parameters of the checkpoint, in the type they are kept in, into a new
// directory. `job` is the checkpoint's and `model` its description. Throws Error{kData}, or Error{kUsage} for a model
// with adapters, or a checkpoint of what trains alone.
void to_hugging_face(const Path& checkpoint, const config::Job& job, const arch::ModelSpec& model,
                     const Path& out);

// Writes OUT/step-0 with the parameters alone, of fp32, for model.weights: of `directory`'s model.safetensors or the files
// that its index names. `job` is what the checkpoint says, `model` its description. Throws Error{kData} naming tensors
// that are missing, of another shape or more than the model has. Gives its path.
Path from_hugging_face(const Path& directory, const config::Job& job, const arch::ModelSpec& model,
                       const std::string& build, const Path& out);

}  // namespace trireme::convert
