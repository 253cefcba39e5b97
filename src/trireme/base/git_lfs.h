// Pointers of Git LFS: the texts that a clone without large files has in their place.
#pragma once

#include <string>
#include <string_view>

#include "trireme/base/error.h"

namespace trireme {

// Throws Error{kData} where the content of file `what` is such a pointer.
inline void refuse_pointer(std::string_view content, const std::string& what) {
  if (content.starts_with("version https://git-lfs.github.com/spec/"))
    fail(ErrorKind::kData,
         "{}: is a Git LFS pointer in place of the file; run git lfs pull there, or download the "
         "file",
         what);
}

}  // namespace trireme
