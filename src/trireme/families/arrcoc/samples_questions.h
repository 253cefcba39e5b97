// Questions about pictures whose regions get tokens by what they are worth.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

// Inputs of model::arrcoc_spec for one question: a picture, shrunk by areas if a side has more than vision.image
// pixels; the text after it; and the answer's tokens so far. The last of these is a target, after which the answer
// continues. Throws Error{kUsage} if model.seq_len has no space for it.
std::vector<at::Tensor> region_prompt(const config::Job& job, const media::Image& image,
                                      const std::string& text,
                                      const std::vector<std::int64_t>& answered);

}  // namespace trireme::loaders
