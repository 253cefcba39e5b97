#include "trireme/data/text/token_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "trireme/base/error.h"

namespace trireme::text {
namespace {

constexpr char kMagic[9] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};
constexpr std::uint64_t kIndexVersion = 1;
// magic, version, type, sequence count, document count: 34 bytes, so nothing after it is aligned.
constexpr std::size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26,
                      kHeader = 34;

constexpr std::pair<DType, std::uint8_t> kCodes[] = {
    {DType::kU8, 1}, {DType::kI32, 4}, {DType::kU16, 8}};

Path with_suffix(Path prefix, const char* suffix) { return prefix += suffix; }

template <typename T>
T load(std::span<const std::byte> bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

template <typename T>
void store(std::vector<std::byte>& out, T value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

template <typename From, typename To>
void widen(const std::byte* from, std::span<To> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    From token;
    std::memcpy(&token, from + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(token);
  }
}

template <typename To>
void widen_any(DType type, const std::byte* from, std::span<To> out) {
  if (type == DType::kU8)
    widen<std::uint8_t>(from, out);
  else if (type == DType::kU16)
    widen<std::uint16_t>(from, out);
  else
    widen<std::int32_t>(from, out);
}

template <typename To>
void narrow(std::span<const std::int32_t> tokens, std::vector<std::byte>& out) {
  out.resize(tokens.size() * sizeof(To));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    TRIREME_CHECK(tokens[i] >= 0 && tokens[i] <= std::int64_t{std::numeric_limits<To>::max()},
                  "token {} does not fit the file's type", tokens[i]);
    const To token = static_cast<To>(tokens[i]);
    std::memcpy(out.data() + i * sizeof(To), &token, sizeof(To));
  }
}

}  // namespace

DType token_dtype(std::int64_t vocab_size) {
  TRIREME_CHECK(vocab_size > 0 && vocab_size <= std::numeric_limits<std::int32_t>::max(),
                "vocabulary of {}", vocab_size);
  if (vocab_size <= 256) return DType::kU8;
  return vocab_size <= 65536 ? DType::kU16 : DType::kI32;
}

TokenFile::TokenFile(const Path& prefix)
    : prefix_(prefix), index_(with_suffix(prefix, ".idx")), data_(with_suffix(prefix, ".bin")) {
  const std::string name = with_suffix(prefix, ".idx").string();
  check_header(name);
  check_sequences(name);
  check_documents(name);
}

void TokenFile::check_header(const std::string& name) {
  const std::span<const std::byte> bytes = index_.bytes();
  if (bytes.size() < kHeader)
    fail(ErrorKind::kData, "{}: {} bytes, an index has at least {}: cut short", name, bytes.size(),
         kHeader);
  if (std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0)
    fail(ErrorKind::kData, "{}: does not begin with MMIDIDX: not a token index", name);
  if (const auto version = load<std::uint64_t>(bytes, kVersionAt); version != kIndexVersion)
    fail(ErrorKind::kData, "{}: index version {}, version {} is needed", name, version,
         kIndexVersion);
  const auto code = load<std::uint8_t>(bytes, kTypeAt);
  const auto found =
      std::find_if(std::begin(kCodes), std::end(kCodes), [&](auto& c) { return c.second == code; });
  if (found == std::end(kCodes))
    fail(ErrorKind::kData, "{}: type code {}; 1 (uint8), 8 (uint16) or 4 (int32) is needed", name,
         code);
  dtype_ = found->first;

  const auto sequences = load<std::uint64_t>(bytes, kSequencesAt);
  const auto boundaries = load<std::uint64_t>(bytes, kDocumentsAt);
  const std::size_t room = bytes.size() - kHeader;
  if (sequences > room / 12 || boundaries > room / 8 || boundaries < 1 ||
      room < 12 * sequences + 8 * boundaries)
    fail(ErrorKind::kData,
         "{}: {} bytes do not hold {} sequences and {} document boundaries: cut short", name,
         bytes.size(), sequences, boundaries);
  if (const std::size_t rest = room - (12 * sequences + 8 * boundaries); rest != 0)
    fail(ErrorKind::kData, "{}: {} bytes follow the index{}", name, rest,
         rest == sequences ? " (a multimodal index, which is not supported)" : "");
  sequences_ = static_cast<std::int64_t>(sequences);
  documents_ = static_cast<std::int64_t>(boundaries) - 1;
}

void TokenFile::check_sequences(const std::string& name) {
  const std::span<const std::byte> bytes = index_.bytes();
  const auto sequences = static_cast<std::size_t>(sequences_);
  const std::size_t lengths_at = kHeader, pointers_at = kHeader + 4 * sequences;
  const auto data_size = static_cast<std::int64_t>(data_.bytes().size());
  const auto width = static_cast<std::int64_t>(size_of(dtype_));
  std::int64_t at = 0;
  for (std::size_t i = 0; i < sequences; ++i) {
    const auto length = load<std::int32_t>(bytes, lengths_at + 4 * i);
    const auto pointer = load<std::int64_t>(bytes, pointers_at + 8 * i);
    if (length < 0)
      fail(ErrorKind::kData, "{}: sequence {} has the negative length {}", name, i, length);
    if (pointer != at)
      fail(ErrorKind::kData,
           "{}: sequence {} points to byte {}, {} is needed (sequences follow each other)", name, i,
           pointer, at);
    at += length * width;
    if (at > data_size)
      fail(ErrorKind::kData, "{}: sequence {} ends at byte {}, beyond the {} bytes of the .bin",
           name, i, at, data_size);
  }
  if (at != data_size)
    fail(ErrorKind::kData, "{}: describes {} bytes, the .bin has {}", name, at, data_size);
  tokens_ = at / width;
}

void TokenFile::check_documents(const std::string& name) const {
  const std::size_t documents_at = kHeader + 12 * static_cast<std::size_t>(sequences_);
  std::int64_t before = 0;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(documents_); ++i) {
    const auto boundary = load<std::int64_t>(index_.bytes(), documents_at + 8 * i);
    if (boundary < before || boundary > sequences_ || (i == 0 && boundary != 0))
      fail(ErrorKind::kData, "{}: document {} begins at sequence {}, after {} of {}: out of order",
           name, i, boundary, before, sequences_);
    before = boundary;
  }
  if (before != sequences_)
    fail(ErrorKind::kData, "{}: documents end at sequence {} of {}", name, before, sequences_);
}

std::int64_t TokenFile::first_token_of_sequence(std::int64_t sequence) const {
  if (sequence == sequences_) return tokens_;
  const auto at = kHeader + static_cast<std::size_t>(4 * sequences_ + 8 * sequence);
  return load<std::int64_t>(index_.bytes(), at) / static_cast<std::int64_t>(size_of(dtype_));
}

TokenRange TokenFile::document(std::int64_t index) const {
  TRIREME_CHECK(index >= 0 && index < documents_, "document {} of {}", index, documents_);
  const auto at = kHeader + static_cast<std::size_t>(12 * sequences_ + 8 * index);
  const std::int64_t first = first_token_of_sequence(load<std::int64_t>(index_.bytes(), at));
  const std::int64_t end = first_token_of_sequence(load<std::int64_t>(index_.bytes(), at + 8));
  return {.first = first, .count = end - first};
}

std::int64_t TokenFile::document_of(std::int64_t position) const {
  TRIREME_CHECK(position >= 0 && position < tokens_, "token {} of {}", position, tokens_);
  std::int64_t low = 0;  // the last document that begins no later lies in [low, high)
  std::int64_t high = documents_;
  while (high - low > 1) {
    const std::int64_t middle = (low + high) / 2;
    (document(middle).first <= position ? low : high) = middle;
  }
  return low;
}

void TokenFile::read(std::int64_t first, std::span<std::int32_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  TRIREME_CHECK(first >= 0 && count <= tokens_ && first <= tokens_ - count, "tokens [{}, {}) of {}",
                first, first + count, tokens_);
  widen_any(dtype_, data_.bytes().data() + static_cast<std::size_t>(first) * size_of(dtype_), out);
}

void TokenFile::read(std::int64_t first, std::span<std::int64_t> out) const {
  const auto count = static_cast<std::int64_t>(out.size());
  TRIREME_CHECK(first >= 0 && count <= tokens_ && first <= tokens_ - count, "tokens [{}, {}) of {}",
                first, first + count, tokens_);
  widen_any(dtype_, data_.bytes().data() + static_cast<std::size_t>(first) * size_of(dtype_), out);
}

std::int64_t TokenFile::max_token() const {
  constexpr std::int64_t kBlock = 1 << 16;
  std::vector<std::int32_t> block;
  std::int64_t largest = -1;
  for (std::int64_t at = 0; at < tokens_; at += kBlock) {
    block.resize(static_cast<std::size_t>(std::min(kBlock, tokens_ - at)));
    read(at, std::span(block));
    const auto [low, high] = std::minmax_element(block.begin(), block.end());
    if (*low < 0)
      fail(ErrorKind::kData, "{}.bin: token {} is negative ({})", prefix_.string(),
           at + (low - block.begin()), *low);
    largest = std::max<std::int64_t>(largest, *high);
  }
  return largest;
}

TokenFileWriter::TokenFileWriter(const Path& prefix, DType dtype)
    : prefix_(prefix), dtype_(dtype), bin_(with_suffix(prefix, ".bin")) {
  TRIREME_CHECK(
      std::any_of(std::begin(kCodes), std::end(kCodes), [&](auto& c) { return c.first == dtype; }),
      "tokens of {}", name(dtype));
}

void TokenFileWriter::add_document(std::span<const std::int32_t> tokens) {
  if (tokens.size() > static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max()))
    fail(ErrorKind::kData, "{}: a document of {} tokens; split it below 2^31", prefix_.string(),
         tokens.size());
  std::vector<std::byte> bytes;
  if (dtype_ == DType::kU8)
    narrow<std::uint8_t>(tokens, bytes);
  else if (dtype_ == DType::kU16)
    narrow<std::uint16_t>(tokens, bytes);
  else
    narrow<std::int32_t>(tokens, bytes);
  bin_.write(bytes);
  lengths_.push_back(static_cast<std::int32_t>(tokens.size()));
  tokens_ += static_cast<std::int64_t>(tokens.size());
}

TokenFileDigests TokenFileWriter::finish() {
  formats::DigestWriter idx(with_suffix(prefix_, ".idx"));
  std::vector<std::byte> out;
  for (const char c : kMagic) store(out, c);
  store(out, kIndexVersion);
  store(out, std::find_if(std::begin(kCodes), std::end(kCodes), [&](auto& c) {
               return c.first == dtype_;
             })->second);
  store<std::uint64_t>(out, lengths_.size());
  store<std::uint64_t>(out, lengths_.size() + 1);
  for (const std::int32_t length : lengths_) store(out, length);
  std::int64_t pointer = 0;
  for (const std::int32_t length : lengths_) {
    store(out, pointer);
    pointer += length * static_cast<std::int64_t>(size_of(dtype_));
  }
  for (std::int64_t i = 0; i <= documents(); ++i) store(out, i);
  idx.write(out);
  TokenFileDigests digests{.bin = {}, .idx = idx.finish()};
  digests.bin = bin_.finish();
  return digests;
}

}  // namespace trireme::text
