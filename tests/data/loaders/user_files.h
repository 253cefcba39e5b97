// Jobs on a user's files, and pictures to write for them.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "trireme/base/fs.h"
#include "trireme/config/resolve/resolve.h"
#include "trireme/data/media/image.h"

namespace trireme::loaders {

using Sets = std::vector<std::string>;

inline config::Job job_of(const Path& path, const Sets& sets) {
  config::Job job;
  for (const char* set : {"run.global_batch=4", "run.micro_batch=4", "data.validation=0.25",
                          "vision.image=16", "vision.patch=8"})
    config::apply_set(job, set);
  for (const std::string& set : sets) config::apply_set(job, set);
  job.data.path = path.string();
  return config::resolve(job, 1, {.vocab = 256, .classes = 2});
}

// One colour all over, which no crop and no flip changes.
inline std::string plain_png(int grey) {
  media::Image image(24, 20);
  std::ranges::fill(image.rgb, static_cast<std::uint8_t>(grey));
  return media::encode_png(image);
}

}  // namespace trireme::loaders
