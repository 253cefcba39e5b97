// config.json and model.safetensors.index.json.
#include "tests/fuzz/target.h"
#include "trireme/config/resolve.h"
#include "trireme/convert/hugging_face.h"

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
    for (const std::string& file : convert::files_of_index(text, "f"))
      fuzz::expect(!file.empty() && file.find('/') == file.npos, "names a file elsewhere");
  });
  return 0;
}
