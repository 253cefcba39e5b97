// dataset.json, and what a job says of data.
#include "tests/fuzz/target.h"
#include "trireme/data/text/dataset.h"
#include "trireme/data/text/dataset_files.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::takes([&] {
    const std::string printed = text::print(text::parse_record(text, "f"));
    fuzz::expect(text::print(text::parse_record(printed, "f")) == printed, "prints something else");
  });
  fuzz::takes([&] { text::parse_validation(text); });
  fuzz::takes([&] { text::parse_tokenizer(text); });
  return 0;
}
