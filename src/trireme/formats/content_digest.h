// Digests of the contents of many files, for data sets that keep none of their own.
#pragma once

#include <cstdint>
#include <span>

#include "trireme/base/fs.h"

namespace trireme::formats {

enum class Contents {
  kSampled,  // of at most 256 files, evenly spread, at most 16 blocks of 4 KiB each: a few MB are read
  kAll,
};

// A digest of these files' contents in this order; not of their names. An absent file counts as an empty one. Throws
// Error{kData} where one cannot be read.
std::uint64_t content_digest(std::span<const Path> files, Contents contents);

}  // namespace trireme::formats
