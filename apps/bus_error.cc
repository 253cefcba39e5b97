#include "bus_error.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "trireme/base/error.h"

namespace trireme::app {
namespace {

// Only calls that are safe in a signal handler from here on.

constexpr std::size_t kMapsLine = 4608;  // of /proc/self/maps: a path has 4096 bytes at most

void put_error(const char* text, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(2, text, size);
    if (written <= 0) return;
    text += written;
    size -= static_cast<std::size_t>(written);
  }
}
void put_error(const char* text) { put_error(text, std::strlen(text)); }

// Reads hex digits at `at` and moves it past them.
std::uintptr_t hex_at(const char*& at) {
  std::uintptr_t value = 0;
  for (;; ++at) {
    const char c = *at;
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
    if (digit < 0) return value;
    value = value * 16 + static_cast<std::uintptr_t>(digit);
  }
}

// The path in a line "BEGIN-END ... INODE   PATH" if `address` lies in it; nullptr if not, or if it is no file's.
const char* path_in(const char* line, std::uintptr_t address) {
  const char* at = line;
  const std::uintptr_t begin = hex_at(at);
  if (*at != '-') return nullptr;
  const std::uintptr_t end = hex_at(++at);
  if (address < begin || address >= end) return nullptr;
  return std::strchr(line, '/');
}

// Writes the path of the file mapped at `address`; false if there is none.
bool put_path(std::uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  char line[kMapsLine];
  std::size_t size = 0;
  for (char c; ::read(maps, &c, 1) == 1;) {
    if (c != '\n') {
      if (size + 1 < kMapsLine) line[size++] = c;
      continue;
    }
    line[size] = '\0';
    size = 0;
    if (const char* path = path_in(line, address)) {
      put_error(path);
      return true;
    }
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  put_error("trireme: data: ");
  if (!put_path(address)) {
    put_error("a bus error outside of mapped files\n");
    ::signal(signal, SIG_DFL);
    ::raise(signal);
    return;
  }
  put_error(
      ": was cut short, or cannot be read any more, while it was in use; restore it and run the "
      "same "
      "command again\n");
  ::_exit(exit_code(ErrorKind::kData));
}

}  // namespace

void name_file_of_bus_errors() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace trireme::app
