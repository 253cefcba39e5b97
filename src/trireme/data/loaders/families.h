// The samples of each family, where they are not those of the source: `NAME_samples()` of each that has samples.cc.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "trireme/config/job.h"
#include "trireme/data/loaders/asked.h"
#include "trireme/data/loaders/samples/clip_source.h"
#include "trireme/data/loaders/samples/file_sources.h"
#include "trireme/data/loaders/samples/synthetic_images.h"
#include "trireme/data/loaders/source.h"

namespace trireme::loaders {

struct FamilySamples {
  config::Family family{};  // the list's
  FileReader (*pairs)(const config::Job&) = caption_reader;
  FileReader (*clips)(const config::Job&) = clip_reader;
  Sources (*scenes)(const config::Job&) = open_scenes;
  Sources (*squares)(const config::Job&) = open_squares;
  bool masks = false;  // clips come with masks, and squares without labels
  View (*held_out_view)(media::ImageSize) = middle_view;
  std::vector<at::Tensor> (*asked)(const config::Job&, const std::string& file) = asked_pictures;
};

const FamilySamples& family_samples(const config::Job& job);

}  // namespace trireme::loaders
