// Token files: Megatron's indexed dataset, PREFIX.bin (tokens) with PREFIX.idx (documents).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trireme/base/dtype.h"
#include "trireme/base/fs.h"
#include "trireme/formats/digest.h"

namespace trireme::text {

// Tokens [first, first + count) of the stream are one document.
struct TokenRange {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// The narrowest of uint8, uint16, int32 that holds ids below `vocab_size`.
DType token_dtype(std::int64_t vocab_size);

// A memory-mapped token file of uint8, uint16 or int32. Opening checks the whole index against the .bin:
// magic, version, lengths, pointers (which must run without gaps from 0 to the end), documents. Throws
// Error{kData} naming the file. Safe to read from several threads.
class TokenFile {
 public:
  explicit TokenFile(const Path& prefix);

  DType dtype() const { return dtype_; }
  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return documents_; }
  TokenRange document(std::int64_t index) const;
  // Document of token `position` of the stream.
  std::int64_t document_of(std::int64_t position) const;

  // Tokens [first, first + out.size()) of the concatenated documents; outside [0, tokens()] is our bug.
  void read(std::int64_t first, std::span<std::int32_t> out) const;
  void read(std::int64_t first, std::span<std::int64_t> out) const;

  // The largest id in the file, by reading all of it; -1 when empty. A negative id is Error{kData}.
  std::int64_t max_token() const;

 private:
  void check_header(const std::string& name);
  void check_sequences(const std::string& name);
  void check_documents(const std::string& name) const;
  std::int64_t first_token_of_sequence(std::int64_t sequence) const;

  Path prefix_;
  MappedFile index_;
  MappedFile data_;
  DType dtype_ = DType::kU8;
  std::int64_t tokens_ = 0;
  std::int64_t sequences_ = 0;
  std::int64_t documents_ = 0;
};

struct TokenFileDigests {
  formats::FileDigest bin;
  formats::FileDigest idx;
};

// Writes PREFIX.bin and PREFIX.idx, one sequence per document; equal documents give equal bytes.
class TokenFileWriter {
 public:
  // Neither file may exist yet. `dtype` is uint8, uint16 or int32.
  TokenFileWriter(const Path& prefix, DType dtype);

  // Ids must fit the type, else our bug. A document of 2^31 tokens or more is Error{kData}.
  void add_document(std::span<const std::int32_t> tokens);

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(lengths_.size()); }

  // Writes the index and fsyncs both files. Without this call no file remains.
  TokenFileDigests finish();

 private:
  Path prefix_;
  DType dtype_;
  formats::DigestWriter bin_;
  std::vector<std::int32_t> lengths_;
  std::int64_t tokens_ = 0;
};

}  // namespace trireme::text
