// Numbers as people read them.
#pragma once

#include <cstdint>
#include <string>

namespace trireme::train {

std::string short_count(double count);                       // 950, 41.2k, 10.8M, 3.1G
std::string short_bytes(std::int64_t bytes);                 // 512 B, 1.5 KiB, 12.3 MiB
std::string moved_text(std::int64_t bytes, double seconds);  // 12.3 GB at 1.05 GB/s
std::string short_time(double seconds);                      // 0.8s, 12s, 1m32s, 3h05m, 2d04h

}  // namespace trireme::train
