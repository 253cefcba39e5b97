// How both programs end: an error is one line on stderr and an exit code.
#pragma once

#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include "colour.h"
#include "trireme/base/error.h"

namespace trireme::app {

// "trireme: KIND: MESSAGE" as one line without control characters.
inline void print_error(const char* kind, std::string message) {
  for (char& c : message)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  std::fflush(stdout);
  const std::string head = "trireme: " + std::string(kind) + ":";
  const Colour colour = std::string_view(kind) == "note" ? Colour::kYellow : Colour::kRed;
  std::fputs((coloured(STDERR_FILENO, colour, head) + " " + message + "\n").c_str(), stderr);
}

inline int report(const Error& error) {
  print_error(name(error.kind()), error.what());
  return exit_code(error.kind());
}

// The error shown to the user for a failed system call.
Error explained(const std::system_error& error);

// A descriptor below 3 that is closed would be given to the next file that is opened, which then gets what is printed.
void occupy_standard_streams();

// The exit code of a command that would end with `code`. It is another than 0 where the command's output could not be
// written, unless the reader has left.
int after_output(int code);

// Runs `body`, which returns an exit code.
template <typename Body>
int guarded(Body&& body) {
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, as on a full disk
  occupy_standard_streams();
  try {
    return after_output(body());
  } catch (const Error& error) {
    return report(error);
  } catch (const std::bad_alloc&) {
    return report(
        {ErrorKind::kInternal,
         "out of memory; use a smaller micro_batch or model, or shard more (parallel.zero)"});
  } catch (const std::system_error& error) {
    return report(explained(error));
  } catch (const std::exception& error) {
    return report({ErrorKind::kInternal, error.what()});
  }
}

}  // namespace trireme::app
