#include "trireme/config/made_up.h"

#include "trireme/base/hash.h"

namespace trireme::config {

bool is_made_up_text(DataSource source) {
  return source == DataSource::kWords || source == DataSource::kAffine;
}

std::string made_up_digest(const Data& data) {
  return hex64(mix(hash64(data.source == DataSource::kWords ? "words" : "affine"),
                   static_cast<std::uint64_t>(data.seed)));
}

}  // namespace trireme::config
