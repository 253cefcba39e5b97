// Questions about pictures whose regions get tokens by what they are worth.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

// What model::arrcoc_spec reads of one question: a picture, which is shrunk by areas if a side has more than vision.image
// pixels, the text behind it and the tokens that have been answered so far. The last of these is a target, behind which
// the answer goes on. Throws Error{kUsage} where model.seq_len has no room for it.
std::vector<at::Tensor> region_prompt(const config::Job& job, const media::Image& image,
                                      const std::string& text,
                                      const std::vector<std::int64_t>& answered);

}  // namespace trireme::loaders
