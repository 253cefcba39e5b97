#include "trireme/launch/islands/state.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/launch/islands/island.h"

namespace trireme::islands {
namespace {

[[noreturn]] void fail_at(const Path& path) {
  fail(ErrorKind::kData, "{}: {}", path.string(), std::strerror(errno));
}

os::Descriptor open_part(const Path& path, StateFiles::For use) {
  const int flags = use == StateFiles::For::kReading ? O_RDONLY : O_RDWR | O_CREAT;
  os::Descriptor file(::open(path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!file.open()) fail_at(path);
  return file;
}

std::int64_t size_of_file(const os::Descriptor& file) {
  struct stat status {};
  return ::fstat(file.get(), &status) == 0 ? status.st_size : 0;
}

}  // namespace

State state_of(const Path& checkpoint) {
  const formats::Manifest manifest = formats::read_manifest(checkpoint);
  const std::string what = checkpoint.string();
  const Json train_state = parse_json(manifest.train_state, what);
  if (!train_state.contains("island"))
    fail(ErrorKind::kData, "{}: is a checkpoint of no island", what);
  const IslandState island = island_state_from(train_state["island"], what + ": island");
  const std::string text = read_file(checkpoint / formats::kManifestName);
  State state{.key = kStateKey | hash64(text),
              .island = island.island,
              .step = manifest.step,
              .position = island.position,
              .line = island.line,
              .job = manifest.job,
              .dataset = manifest.dataset_digest,
              .files = {{.name = formats::kManifestName, .bytes = std::ssize(text)}}};
  for (const formats::ManifestFile& file : manifest.files)
    state.files.push_back({.name = file.name, .bytes = file.size});
  return state;
}

std::uint64_t digest_of(const formats::Manifest& manifest) {
  std::uint64_t digest = mix(0, static_cast<std::uint64_t>(manifest.step));
  for (const formats::ManifestFile& file : manifest.files)
    digest = mix(mix(digest, hash64(file.name)), file.hash);
  return digest;
}

StateFiles::StateFiles(const Path& directory, State about, For use) : about_(std::move(about)) {
  bool before = true;  // all files before this one are whole
  std::int64_t there = 0;
  for (const StateFile& one : about_.files) {
    files_.push_back(open_part(directory / one.name, use));
    const std::int64_t size = size_of_file(files_.back());
    if (use == For::kReading && size != one.bytes)
      fail(ErrorKind::kData, "{}: has {} bytes, its manifest {}", (directory / one.name).string(),
           size, one.bytes);
    if (before) there += std::min(size, one.bytes);
    before = before && size >= one.bytes;
  }
  pieces_ = there == about_.bytes() ? pieces_of(there) : there / kPiece;
}

// Calls use(file, offset, begin, count) for the parts of a range of bytes.
template <typename Use>
void StateFiles::for_ranges(std::int64_t begin, std::int64_t count, const Use& use) const {
  std::int64_t first = 0;  // of the file
  for (std::size_t i = 0; i < files_.size(); ++i) {
    const std::int64_t size = about_.files[i].bytes;
    const std::int64_t from = std::max(begin, first), to = std::min(begin + count, first + size);
    if (from < to) use(files_[i].get(), from - first, from - begin, to - from);
    first += size;
  }
}

std::string StateFiles::piece(std::int64_t number) const {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(std::min(kPiece, about_.bytes() - number * kPiece)));
  for_ranges(number * kPiece, std::ssize(bytes),
             [&](int file, off_t offset, std::int64_t at, std::int64_t count) {
               while (count > 0) {
                 const ssize_t got =
                     ::pread(file, bytes.data() + at, static_cast<std::size_t>(count), offset);
                 if (got < 0 && errno == EINTR) continue;
                 if (got <= 0)
                   fail(ErrorKind::kData, "a checkpoint that is handed over: {}",
                        got == 0 ? "a file is shorter now" : std::strerror(errno));
                 at += got;
                 offset += got;
                 count -= got;
               }
             });
  return frame_of(about_.key, number, bytes);
}

void StateFiles::sync() const {
  for (const os::Descriptor& file : files_)
    if (::fsync(file.get()) != 0)
      fail(ErrorKind::kData, "a checkpoint that another island hands over: {}",
           std::strerror(errno));
}

bool StateFiles::take(std::string_view frame) {
  const std::optional<Piece> piece = piece_from(frame);
  if (!piece || complete() || piece->key != about_.key || piece->number != pieces_ ||
      std::ssize(piece->bytes) != std::min(kPiece, about_.bytes() - pieces_ * kPiece))
    return false;
  for_ranges(pieces_ * kPiece, std::ssize(piece->bytes),
             [&](int file, off_t offset, std::int64_t at, std::int64_t count) {
               while (count > 0) {
                 const ssize_t written = ::pwrite(file, piece->bytes.data() + at,
                                                  static_cast<std::size_t>(count), offset);
                 if (written < 0 && errno == EINTR) continue;
                 if (written < 0)
                   fail(ErrorKind::kData, "a checkpoint that another island hands over: {}",
                        std::strerror(errno));
                 at += written;
                 offset += written;
                 count -= written;
               }
             });
  ++pieces_;
  return true;
}

}  // namespace trireme::islands
