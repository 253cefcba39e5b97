// Log-probabilities of a data set's tokens by the weights that training begins with, as a directory.
#pragma once

#include <span>
#include <string>

#include "trireme/base/fs.h"

namespace trireme::loaders {

// Data, weights and model that log-probabilities belong to.
struct ReferenceRecord {
  std::string data;     // digest of the data set
  std::string weights;  // identity of the weights
  std::string model;    // digest of the keys of the model
  std::string compute;  // type
};

// One fp64 for each token of both splits, 0 for those without a mark.
class Reference {
 public:
  // Throws Error{kData} for a directory that is not one.
  explicit Reference(const Path& directory);

  const ReferenceRecord& record() const { return record_; }
  std::span<const double> train() const { return numbers(train_); }
  std::span<const double> val() const { return numbers(val_); }

 private:
  static std::span<const double> numbers(const MappedFile& file);

  ReferenceRecord record_;
  MappedFile train_, val_;
};

bool is_reference(const Path& directory);

// The directory appears complete or not at all.
void write_reference(const Path& directory, const ReferenceRecord& record,
                     std::span<const double> train, std::span<const double> val);

}  // namespace trireme::loaders
