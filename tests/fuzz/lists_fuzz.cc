// Lists of clips: SSv2's, its labels, and lines.
#include "tests/fuzz/target.h"
#include "trireme/data/media/lists.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  fuzz::takes([&] {
    for (const media::Ssv2Entry& entry : media::parse_ssv2_list(text, "f"))
      fuzz::expect(!entry.id.empty(), "a clip without a name");
  });
  fuzz::takes([&] { media::parse_ssv2_labels(text, "f"); });
  fuzz::takes([&] {
    for (const media::ListLine& line : media::parse_list_lines(text, "f"))
      fuzz::expect(line.label >= -1, "a class below none");
  });
  return 0;
}
