// Errors: what went wrong, of which kind, and what the user can do about it.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace trireme {

// Decides the exit code and the handler of an error.
enum class ErrorKind {
  kInternal,     // our bug: exit 1
  kUsage,        // bad command line, bad config, nothing started: exit 2
  kData,         // token file, dataset or checkpoint unusable: exit 3
  kPeerLost,     // a peer died, hung or timed out; restartable: exit 4
  kNonFinite,    // loss or gradient not finite, by policy: exit 5
  kOutOfMemory,  // needs more memory than it is allowed, nothing started: exit 6
};

// An error whose message names the value seen, the value needed and the way out, in one line.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind_(kind) {}
  ErrorKind kind() const { return kind_; }

 private:
  ErrorKind kind_;
};

// The process exit code of an error kind (DESIGN: 1 bug, 2 usage, 3 data, 4 peer lost, 5 non-finite,
// 6 does not fit).
int exit_code(ErrorKind kind);

// Short stable name: "internal", "usage", "data", "peer lost", "non-finite", "does not fit".
const char* name(ErrorKind kind);

template <typename... Args>
[[noreturn]] void fail(ErrorKind kind, fmt::format_string<Args...> format, Args&&... args) {
  throw Error(kind, fmt::format(format, std::forward<Args>(args)...));
}

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);
}  // namespace internal

}  // namespace trireme

// Always on. A failed check is our bug: it throws Error{kInternal} naming the place.
#define TRIREME_CHECK(condition, ...)                                   \
  do {                                                                  \
    if (!(condition)) [[unlikely]]                                      \
      ::trireme::internal::check_failed(__FILE__, __LINE__, #condition, \
                                        ::fmt::format(__VA_ARGS__));    \
  } while (false)
