// Low-rank adapters of a checkpoint: as files of Hugging Face's PEFT, and merged into the weights that they adapt.
#pragma once

#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/job.h"
#include "trireme/formats/safetensors.h"
#include "trireme/model/spec.h"

namespace trireme::convert {

inline constexpr char kAdapterConfigName[] = "adapter_config.json";
inline constexpr char kAdapterModelName[] = "adapter_model.safetensors";

// The tensors that to_peft writes for the resolved job of a model with adapters, and of a checkpoint with its own types.
// Throws as to_peft.
std::vector<formats::TensorInfo> peft_tensors(const config::Job& job,
                                              const model::ModelSpec& model);
std::vector<formats::TensorInfo> peft_tensors(const Path& checkpoint, const config::Job& job,
                                              const model::ModelSpec& model);

// Writes adapter_config.json and adapter_model.safetensors into a new directory. Tensors have the type and the bits of the
// checkpoint. `job` is the checkpoint's and `model` its description. Throws Error{kData}, or Error{kUsage} for a model of a
// class that Hugging Face does not have and for one in which more than adapters trained (lora.also).
void to_peft(const Path& checkpoint, const config::Job& job, const model::ModelSpec& model,
             const Path& out);

// Writes config.json and model.safetensors of the model without adapters, W + alpha / rank B A in place of W, summed in
// fp32. Frozen units that the checkpoint leaves out come from model.weights. Tensors are in bf16 where the weights are,
// else in fp32. Throws Error{kData}, or Error{kUsage} as hugging_face_config.
void merged_to_hugging_face(const Path& checkpoint, const config::Job& job,
                            const model::ModelSpec& model, const Path& out);

}  // namespace trireme::convert
