// NumPy's .npz: arrays of bytes and floats by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace trireme::media {

// In C order. `bytes` holds values of the file as they are, little-endian.
struct NpyArray {
  enum class Type { kU8, kF32, kF64 } type = Type::kU8;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;  // of the file

  std::int64_t count() const;
  // All values as doubles.
  std::vector<double> values() const;
};

// One .npy. Throws Error{kData} beginning with `what` where it is no such array: another type (u1, f4 and f8 are read),
// Fortran order, a header that is broken or says more than is there.
NpyArray parse_npy(std::span<const std::byte> bytes, const std::string& what);

// The arrays of a .npz by name (without .npy), as numpy.savez writes it. Throws Error{kData}, also for a compressed one.
std::map<std::string, NpyArray> parse_npz(std::span<const std::byte> bytes,
                                          const std::string& what);

}  // namespace trireme::media
