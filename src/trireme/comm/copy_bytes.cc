#include "trireme/comm/copy_bytes.h"

#include <cstring>

namespace trireme::comm {

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  struct Quarter {
    std::byte bytes[16];
  };
  constexpr std::size_t kLine = 4 * sizeof(Quarter);
  std::size_t done = 0;
  // All of a line is read before it is written: a loop of single moves would become a call of memcpy.
  for (; done + kLine <= bytes; done += kLine) {
    Quarter line[4];
    std::memcpy(line, from + done, kLine);
    std::memcpy(to + done, line, kLine);
  }
  if (done < bytes) std::memcpy(to + done, from + done, bytes - done);
}

}  // namespace trireme::comm
