// TarWriter of tar.h.
#include <array>
#include <cstring>

#include "trireme/base/error.h"
#include "trireme/base/os/durable.h"
#include "trireme/data/media/tar.h"
#include "trireme/data/media/tar_header.h"

namespace trireme::media {
namespace {

using TarHeader = std::array<char, kTarBlock>;

void put_octal(TarHeader& header, const HeaderField& field, std::uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, field.size - 1);
  std::memcpy(header.data() + field.at, digits.data(), field.size - 1);
}

// A long name is cut at a slash: what is before it goes into another field.
void put_name(TarHeader& header, std::string_view name) {
  std::size_t cut = 0;  // where the second part begins
  if (name.size() > kName.size) {
    const std::size_t slash = name.find('/', name.size() - kName.size - 1);
    if (slash == name.npos || slash > kPrefix.size || slash + 1 == name.size())
      fail(ErrorKind::kUsage, "{}: too long a name for a member of a tar", name);
    std::memcpy(header.data() + kPrefix.at, name.data(), slash);
    cut = slash + 1;
  }
  if (name.empty()) fail(ErrorKind::kUsage, "a member of a tar without a name");
  std::memcpy(header.data() + kName.at, name.data() + cut, name.size() - cut);
}

TarHeader make_header(std::string_view name, std::uint64_t size) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 33;  // of eleven octal digits
  if (size >= kMost) fail(ErrorKind::kUsage, "{}: {} bytes are too many for a tar", name, size);
  TarHeader header{};
  put_name(header, name);
  put_octal(header, kMode, 0644);
  put_octal(header, kOwner, 0);
  put_octal(header, kGroup, 0);
  put_octal(header, kSize, size);
  put_octal(header, kTime, 0);
  header[kType.at] = '0';
  std::memcpy(header.data() + kMagic.at, "ustar\00000", kMagic.size);
  const std::string sum = fmt::format("{:06o}", header_checksum(header.data()));
  std::memcpy(header.data() + kChecksum.at, sum.data(), sum.size());
  header[kChecksum.at + 7] = ' ';
  return header;
}

}  // namespace

struct TarWriter::State {
  explicit State(const Path& path) : file(os::real_file_system(), path) {}

  void write(std::string_view bytes) {
    buffer += bytes;
    if (buffer.size() >= (std::size_t{1} << 20)) flush();
  }
  void flush() {
    file.write(std::as_bytes(std::span(buffer)));
    buffer.clear();
  }

  os::NewFile file;
  std::string buffer;
};

TarWriter::TarWriter(const Path& path) : state_(std::make_unique<State>(path)) {}
TarWriter::~TarWriter() = default;

void TarWriter::add(std::string_view name, std::string_view bytes) {
  const TarHeader header = make_header(name, bytes.size());
  state_->write({header.data(), header.size()});
  state_->write(bytes);
  state_->write(std::string((kTarBlock - bytes.size() % kTarBlock) % kTarBlock, '\0'));
}

void TarWriter::finish() {
  state_->write(std::string(2 * kTarBlock, '\0'));
  state_->flush();
  state_->file.finish();
}

}  // namespace trireme::media
