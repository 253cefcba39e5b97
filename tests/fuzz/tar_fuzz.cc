// A tar, as it is and with checksums that are right.
#include <cstdio>
#include <cstring>
#include <span>

#include "tests/fuzz/target.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/media/tar_header.h"

using namespace trireme;

namespace {

void read_tar(std::string_view file) {
  const auto bytes = std::as_bytes(std::span(file.data(), file.size()));
  fuzz::takes([&] {
    for (const media::ShardSample& sample : media::parse_shard(bytes, "f")) {
      fuzz::expect(!sample.parts.empty(), "a sample of nothing");
      for (const media::ShardSample::Part& part : sample.parts)
        fuzz::expect(part.offset <= file.size() && part.size <= file.size() - part.offset,
                     "a member outside the file");
    }
  });
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string file(fuzz::text_of(data, size));
  read_tar(file);
  for (std::size_t at = 0; at + media::kTarBlock <= file.size(); at += media::kTarBlock) {
    if (std::memcmp(file.data() + at + media::kMagic.at, "ustar", 5) != 0) continue;
    char digits[9];
    std::snprintf(digits, sizeof digits, "%06o",
                  static_cast<unsigned>(media::header_checksum(file.data() + at)));
    std::memcpy(file.data() + at + media::kChecksum.at, digits, 7);
  }
  read_tar(file);
  return 0;
}
