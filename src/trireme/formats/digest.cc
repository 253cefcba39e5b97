#include "trireme/formats/digest.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/base/os/durable.h"

namespace trireme::formats {
namespace {

constexpr std::size_t kMib = FileDigest::kBlock;

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

}  // namespace

struct DigestWriter::State {
  State(os::FileSystem& files, const Path& path) : file(files, path) {}

  // Everything but the last block of a file is exactly one MiB.
  void put(std::span<const std::byte> bytes) {
    XXH3_64bits_update(whole.get(), bytes.data(), bytes.size());
    digest.mib_hashes.push_back(hash64(bytes));
    digest.size += static_cast<std::int64_t>(bytes.size());
    file.write(bytes);
  }

  os::NewFile file;
  FileDigest digest;
  bool finished = false;
  std::unique_ptr<XXH3_state_t, FreeHash> whole{XXH3_createState()};
  std::vector<std::byte> block;
};

DigestWriter::DigestWriter(const Path& path, os::FileSystem& files)
    : state_(std::make_unique<State>(files, path)) {
  XXH3_64bits_reset(state_->whole.get());
  state_->block.reserve(kMib);
}

DigestWriter::~DigestWriter() = default;

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
  TRIREME_CHECK(state_ && !std::exchange(state_->finished, true), "a file is finished once");
  if (!state_->block.empty()) state_->put(state_->block);
  state_->file.finish();
  state_->digest.hash = XXH3_64bits_digest(state_->whole.get());
  return std::move(state_->digest);
}

std::vector<std::uint64_t> block_hashes(std::span<const std::byte> bytes) {
  std::vector<std::uint64_t> hashes;
  for (std::size_t at = 0; at < bytes.size(); at += kMib)
    hashes.push_back(hash64(bytes.subspan(at, std::min(kMib, bytes.size() - at))));
  return hashes;
}

FileDigest digest_of(std::span<const std::byte> bytes) {
  return {.size = static_cast<std::int64_t>(bytes.size()),
          .hash = hash64(bytes),
          .mib_hashes = block_hashes(bytes)};
}

FileDigest digest_of(const os::Contents& contents) {
  constexpr std::size_t kHeld = 4;  // blocks
  const std::span<const std::byte> bytes = contents.bytes();
  const std::unique_ptr<XXH3_state_t, FreeHash> whole(XXH3_createState());
  XXH3_64bits_reset(whole.get());
  FileDigest digest{.size = static_cast<std::int64_t>(bytes.size())};
  for (std::size_t at = 0; at < bytes.size(); at += kMib) {
    const auto block = bytes.subspan(at, std::min(kMib, bytes.size() - at));
    XXH3_64bits_update(whole.get(), block.data(), block.size());
    digest.mib_hashes.push_back(hash64(block));
    if (digest.mib_hashes.size() % kHeld == 0) contents.release();
  }
  contents.release();
  digest.hash = XXH3_64bits_digest(whole.get());
  return digest;
}

std::uint64_t hash_of(const os::Contents& contents) { return digest_of(contents).hash; }

FileDigest digest_file(const Path& path) { return digest_of(*os::real_file_system().read(path)); }

}  // namespace trireme::formats
