// A picture, a clip or a caption that a trained model is asked about, as its program reads one sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/loaders/samples/views.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

// A caption's bytes, int64 [model.seq_len], and the place of its end, int64 []; what is longer is cut.
std::vector<at::Tensor> caption_tokens(const config::Job& job, std::string_view text);

// How a frame of this size is seen where nothing is drawn: the largest square in the middle, or of a robot's camera
// middle_box.
View middle_view(media::ImageSize size);
View camera_view(media::ImageSize size);

// The picture, or the clip's frames, of a file, processed like held-out samples: float [1, 3, frames, image, image];
// for a probe one clip a segment. A picture in a question to a model of clips fills all of its frames. Throws
// Error{kData} naming the file.
at::Tensor asked_pixels(const config::Job& job, const std::string& file);

// Leading inputs of the program that is asked for an embedding or a class of what `file` shows. Inputs that it does not need
// are undefined. Throws Error{kData} naming the file.
std::vector<at::Tensor> asked_inputs(const config::Job& job, const std::string& file);
// The same by what a family's program reads: pixels alone, with masks, or with a prompt.
std::vector<at::Tensor> asked_pictures(const config::Job& job, const std::string& file);
std::vector<at::Tensor> asked_masked(const config::Job& job, const std::string& file);
std::vector<at::Tensor> asked_prompt(const config::Job& job, const std::string& file);
// Inputs of a program of family clip that is asked about a caption.
std::vector<at::Tensor> asked_inputs_of_caption(const config::Job& job, std::string_view text);

}  // namespace trireme::loaders
