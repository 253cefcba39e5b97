// The index of a token file and its tokens: two bytes say how many of them, from the back, are tokens.
#include <algorithm>
#include <array>

#include "tests/fuzz/target.h"
#include "tests/harness/scratch_directory.h"
#include "trireme/data/text/token_file.h"

using namespace trireme;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const harness::ScratchDirectory directory;
  if (size < 2) return 0;
  const std::string_view text = fuzz::text_of(data + 2, size - 2);
  const std::size_t tokens = std::min<std::size_t>(data[0] + 256u * data[1], text.size());
  directory.write("f.idx", text.substr(0, text.size() - tokens));
  directory.write("f.bin", text.substr(text.size() - tokens));
  fuzz::takes([&] {
    const text::TokenFile file(directory / "f");
    std::int64_t counted = 0;
    for (std::int64_t i = 0; i < file.documents(); ++i) {
      fuzz::expect(file.document(i).first == counted, "documents do not follow each other");
      counted += file.document(i).count;
    }
    fuzz::expect(counted == file.tokens(), "documents are not the stream");
    std::array<std::int64_t, 7> read{};
    for (std::int64_t at = 0; at + 7 <= file.tokens(); at += 7) file.read(at, read);
    if (file.tokens() > 0) file.document_of(file.tokens() - 1);
    file.max_token();
  });
  return 0;
}
