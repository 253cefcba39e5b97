// The back ends of processes, and the words by which this test binary runs itself.
#pragma once

#include <string>

#include "trireme/comm/connect/processes.h"

namespace trireme::comm {

// A back end, which may pretend that every two ranks have a host.
struct BackEnd {
  const char* name;
  Route route;
  bool hosts;
};
inline constexpr BackEnd kWays[] = {{"shm", Route::kShm, false},
                                    {"gloo", Route::kGloo, false},
                                    {"tcp", Route::kTcp, false},
                                    {"hosts", Route::kBest, true}};

inline constexpr char kChunksFlag[] = "--chunks";

namespace chunk_test {
// Kills ranks at chunks of operations of every kind. What is wrong goes to stderr; returns whether nothing is.
bool chunks_are_survived(const BackEnd& way);
}  // namespace chunk_test

}  // namespace trireme::comm
