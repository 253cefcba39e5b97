// config.json, preprocessor_config.json and model.safetensors.index.json.
#include "tests/fuzz/target.h"
#include "trireme/checkpoint/convert/hugging_face.h"
#include "trireme/checkpoint/convert/preprocessor.h"
#include "trireme/config/pixels.h"
#include "trireme/config/resolve/resolve.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text_of(data, size));
  fuzz::takes([&] {
    const config::Job job = convert::job_of_config(text, "f");
    fuzz::expect(convert::job_of_config(convert::hugging_face_config(job), "f") == job,
                 "prints another model");
    config::resolve(job, 1, {});
  });
  fuzz::takes([&] {
    config::Job job;
    job.model.family = config::Family::kVlm;
    convert::read_preprocessor(text, "f", job);
    config::Job again = job;
    convert::read_preprocessor(convert::preprocessor_config(job), "f", again);
    fuzz::expect(config::pixel_scale(again) == config::pixel_scale(job), "sees other pixels");
  });
  fuzz::takes([&] {
    for (const auto& [tensor, file] : convert::read_weight_map(text, "f"))
      fuzz::expect(!file.empty() && file.find('/') == file.npos, "names a file elsewhere");
  });
  return 0;
}
