// How a camera was held.
#pragma once

#include <cstddef>
#include <span>

namespace trireme::media {

// The EXIF orientation of a JPEG, PNG or WebP, 1 to 8 (EXIF 2.32, tag 0x0112); 1, as it is stored, if the file has none
// or damaged EXIF data.
int orientation(std::span<const std::byte> file);

// Whether rows of such a picture are stored as columns.
inline bool lies_on_its_side(int orientation) { return orientation >= 5; }

}  // namespace trireme::media
