#include "trireme/formats/digest.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"

namespace trireme::formats {
namespace {

constexpr std::size_t kMib = std::size_t{1} << 20;

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

struct DigestWriter::State {
  Path path;
  int fd = -1;
  FileDigest digest;
  std::unique_ptr<XXH3_state_t, FreeHash> whole{XXH3_createState()};
  std::vector<std::byte> block;

  [[noreturn]] void fail_errno(const char* action) const {
    fail(ErrorKind::kData, "{}: cannot {}: {}", path.string(), action, std::strerror(errno));
  }

  // Everything but the last block of a file is exactly one MiB.
  void put(std::span<const std::byte> bytes) {
    XXH3_64bits_update(whole.get(), bytes.data(), bytes.size());
    digest.mib_hashes.push_back(hash64(bytes));
    digest.size += static_cast<std::int64_t>(bytes.size());
    while (!bytes.empty()) {
      const ssize_t written = ::write(fd, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) fail_errno("write");
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }
};

DigestWriter::DigestWriter(const Path& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (state_->fd < 0) state_->fail_errno("create");
  XXH3_64bits_reset(state_->whole.get());
  state_->block.reserve(kMib);
}

DigestWriter::~DigestWriter() {
  if (!state_ || state_->fd < 0) return;
  ::close(state_->fd);
  ::unlink(state_->path.c_str());
}

DigestWriter::DigestWriter(DigestWriter&& other) noexcept = default;

void DigestWriter::write(std::span<const std::byte> bytes) {
  std::vector<std::byte>& block = state_->block;
  while (!bytes.empty()) {
    if (block.empty() && bytes.size() >= kMib) {
      state_->put(bytes.first(kMib));
      bytes = bytes.subspan(kMib);
      continue;
    }
    const std::size_t part = std::min(bytes.size(), kMib - block.size());
    block.insert(block.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(part));
    bytes = bytes.subspan(part);
    if (block.size() == kMib) {
      state_->put(block);
      block.clear();
    }
  }
}

void DigestWriter::write(std::string_view bytes) {
  write(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

FileDigest DigestWriter::finish() {
  TRIREME_CHECK(state_ && state_->fd >= 0, "a file is finished once");
  if (!state_->block.empty()) state_->put(state_->block);
  if (::fsync(state_->fd) != 0) state_->fail_errno("fsync");
  if (::close(std::exchange(state_->fd, -1)) != 0) {
    const int cause = errno;
    ::unlink(state_->path.c_str());
    errno = cause;
    state_->fail_errno("close");
  }
  state_->digest.hash = XXH3_64bits_digest(state_->whole.get());
  return std::move(state_->digest);
}

FileDigest digest_file(const Path& path) {
  std::error_code cause;
  if (std::filesystem::is_symlink(path, cause))
    fail(ErrorKind::kData, "{}: is a symbolic link; put the file itself there", path.string());
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  FileDigest digest{
      .size = static_cast<std::int64_t>(bytes.size()), .hash = hash64(bytes), .mib_hashes = {}};
  for (std::size_t at = 0; at < bytes.size(); at += kMib)
    digest.mib_hashes.push_back(hash64(bytes.subspan(at, std::min(kMib, bytes.size() - at))));
  return digest;
}

}  // namespace trireme::formats
