#include "trireme/base/error.h"

#include <cstring>

namespace trireme {

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return 1;
    case ErrorKind::kUsage: return 2;
    case ErrorKind::kData: return 3;
    case ErrorKind::kPeerLost: return 4;
    case ErrorKind::kNonFinite: return 5;
    case ErrorKind::kOutOfMemory: return 6;
  }
  return 1;
}

const char* name(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInternal: return "internal";
    case ErrorKind::kUsage: return "usage";
    case ErrorKind::kData: return "data";
    case ErrorKind::kPeerLost: return "peer lost";
    case ErrorKind::kNonFinite: return "non-finite";
    case ErrorKind::kOutOfMemory: return "does not fit";
  }
  return "internal";
}

namespace internal {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  const char* base = std::strrchr(file, '/');
  fail(ErrorKind::kInternal, "{} (check `{}` failed at {}:{}; this is a bug in Trireme)", message,
       condition, base ? base + 1 : file, line);
}

}  // namespace internal
}  // namespace trireme
