#include "trireme/exec/units/coded_slices.h"

#include <algorithm>
#include <utility>

#include "trireme/comm/tree_sum.h"

namespace trireme::exec {
namespace {

constexpr std::int64_t kTogether = 4096;  // elements decoded and added at a time; whole blocks

std::span<std::byte> bytes_of(const Flat& flat, std::int64_t begin, std::int64_t count) {
  return {static_cast<std::byte*>(flat.data()) + begin, static_cast<std::size_t>(count)};
}

std::span<const float> floats(const float* values, std::int64_t count) {
  return {values, static_cast<std::size_t>(count)};
}

}  // namespace

CodedSlices::CodedSlices(plan::CodedReduction reduction, std::int64_t begin, std::int64_t numel)
    : reduction_(std::move(reduction)), begin_(begin), numel_(numel), slices_(reduction_.slices()) {
  std::int64_t first = 0;
  for (const std::int64_t slice : slices_) firsts_.push_back(std::exchange(first, first + slice));
}

std::vector<std::int64_t> CodedSlices::sent_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t slice : slices_)
    bytes.push_back(reduction_.own() * reduction_.code_bytes(slice));
  return bytes;
}

std::vector<std::int64_t> CodedSlices::result_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t slice : slices_) bytes.push_back(reduction_.back_bytes(slice));
  return bytes;
}

codec::Segment CodedSlices::segment(std::int64_t first, std::int64_t count) const {
  const std::int64_t from = begin_ + first;
  return {.block = reduction_.block,
          .first = from / reduction_.block,
          .real = std::clamp<std::int64_t>(numel_ - from, 0, count)};
}

void CodedSlices::encode(std::span<const Flat> sums, const Flat& codes) const {
  TRIREME_CHECK(std::ssize(sums) == reduction_.own(), "{} sums of {} senders", sums.size(),
                reduction_.own());
  std::int64_t at = 0;
  for (std::size_t rank = 0; rank < slices_.size(); ++rank)
    for (const Flat& sum : sums) {
      const std::int64_t bytes = reduction_.code_bytes(slices_[rank]);
      codec::encode(reduction_.sums.codec, segment(firsts_[rank], slices_[rank]), {},
                    floats(static_cast<const float*>(sum.at(firsts_[rank])), slices_[rank]),
                    bytes_of(codes, std::exchange(at, at + bytes), bytes));
    }
}

void CodedSlices::add(int rank, const Flat& codes, float* out) const {
  const auto senders = static_cast<std::size_t>(reduction_.sums.senders);
  const std::int64_t all = elements(rank), bytes = reduction_.code_bytes(all);
  std::vector<float> decoded(senders * kTogether);
  std::vector<const void*> leaves;
  for (std::size_t sender = 0; sender < senders; ++sender)
    leaves.push_back(decoded.data() + sender * kTogether);
  for (std::int64_t done = 0; done < all; done += kTogether) {
    const std::int64_t count = std::min(kTogether, all - done);
    const std::int64_t before = reduction_.code_bytes(done), some = reduction_.code_bytes(count);
    for (std::size_t sender = 0; sender < senders; ++sender)
      codec::decode(reduction_.sums.codec, segment(first(rank) + done, count), {},
                    bytes_of(codes, static_cast<std::int64_t>(sender) * bytes + before, some),
                    {decoded.data() + sender * kTogether, static_cast<std::size_t>(count)});
    comm::tree_reduce(out + done, leaves, count, DType::kF32, comm::Reduce::kSum);
  }
}

void CodedSlices::encode_result(int rank, const float* slice, std::byte* codes) const {
  const std::int64_t count = elements(rank);
  codec::encode(reduction_.sums.back.value(), segment(first(rank), count), {}, floats(slice, count),
                {codes, static_cast<std::size_t>(reduction_.back_bytes(count))});
}

void CodedSlices::decode_result(int rank, const std::byte* codes, float* slice) const {
  const std::int64_t count = elements(rank);
  codec::decode(reduction_.sums.back.value(), segment(first(rank), count), {},
                {codes, static_cast<std::size_t>(reduction_.back_bytes(count))},
                {slice, static_cast<std::size_t>(count)});
}

}  // namespace trireme::exec
