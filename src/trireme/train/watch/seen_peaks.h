// The fastest matrix products that were ever measured on a machine, kept in a file.
#pragma once

#include <map>
#include <string>

#include "trireme/base/dtype.h"
#include "trireme/base/fs.h"

namespace trireme::train {

class SeenPeaks {
 public:
  // Reads the file; one that is missing or damaged holds nothing. An empty path: nothing is kept.
  explicit SeenPeaks(Path file);

  // FLOP/s of one rank; 0 if none was measured.
  double of(DType type) const;
  // Raises a rate, and writes the file if that is new. A file that cannot be written is left as it is.
  void raise(DType type, double flops);

 private:
  Path file_;
  std::map<std::string, double, std::less<>> peaks_;  // by the type's name
};

}  // namespace trireme::train
