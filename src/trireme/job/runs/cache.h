// The directory in which a machine keeps what was made once: prepared text, what was found in files.
#pragma once

#include <functional>

#include "trireme/base/fs.h"

namespace trireme::runs {

// Returns the cache directory when one is needed first. Throws Error{kUsage} if there is none.
using FindCache = std::function<Path()>;

// Creates a directory in the cache, to be written to. Error{kUsage} where that cannot be.
void make_in_cache(const Path& directory);

}  // namespace trireme::runs
