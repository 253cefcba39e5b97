#include "trireme/exec/units/coded_slices.h"

#include <ATen/ops/empty_like.h>

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

CodedSlices::CodedSlices(plan::CodedReduction reduction, std::int64_t begin, std::int64_t numel,
                         codec::Draws draws, int first_sender)
    : reduction_(std::move(reduction)),
      begin_(begin),
      numel_(numel),
      draws_(draws),
      first_sender_(first_sender),
      slices_(reduction_.slices()) {
  std::int64_t first = 0;
  for (const std::int64_t slice : slices_) firsts_.push_back(std::exchange(first, first + slice));
}

std::vector<std::int64_t> CodedSlices::sent_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t slice : slices_) bytes.push_back(reduction_.sent_bytes(slice));
  return bytes;
}

std::vector<std::int64_t> CodedSlices::result_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const std::int64_t slice : slices_) bytes.push_back(reduction_.back_bytes(slice));
  return bytes;
}

codec::Draws CodedSlices::draws_of(int sender) const {
  return codec::with_sender(draws_, static_cast<std::uint64_t>(first_sender_ + sender));
}

codec::Segment CodedSlices::segment(std::int64_t first, std::int64_t count,
                                    std::int64_t block) const {
  const std::int64_t from = begin_ + first + first / slices_.front() * reduction_.gap;
  return {.block = block,
          .first = from / block,
          .real = std::clamp<std::int64_t>(numel_ - from, 0, count)};
}

template <typename Use>
void CodedSlices::for_slices(const Flat& codes, const Use& use) const {
  std::int64_t at = 0;
  for (std::size_t rank = 0; rank < slices_.size(); ++rank)
    for (int sender = 0; sender < reduction_.own(); ++sender) {
      const std::int64_t bytes = reduction_.code_bytes(slices_[rank]);
      use(sender, firsts_[rank], slices_[rank],
          bytes_of(codes, std::exchange(at, at + bytes), bytes));
    }
}

void CodedSlices::encode(std::span<const Flat> sums, const Flat& codes) const {
  for_slices(codes, [&](int sender, std::int64_t first, std::int64_t count,
                        std::span<std::byte> out) {
    const Flat& sum = sums[sender];
    codec::encode(reduction_.sums.codec, segment(first, count, reduction_.block), draws_of(sender),
                  floats(static_cast<const float*>(sum.at(first)), count), out);
  });
}

void CodedSlices::encode(std::span<const Flat> sums, const Flat& before, const Flat& after,
                         double scale, int earlier, const Flat& codes) const {
  const codec::Codec& codec = reduction_.sums.codec;
  for_slices(codes,
             [&](int sender, std::int64_t first, std::int64_t all, std::span<std::byte> out) {
               const int turn = earlier + sender, residual = turn % reduction_.residuals();
               const Flat& last = turn < reduction_.residuals() ? before : after;
               for (std::int64_t done = 0; done < all; done += kTogether) {
                 const std::int64_t count = std::min(kTogether, all - done), from = first + done;
                 const std::int64_t kept = residual * reduction_.count + from;
                 const at::Tensor left = last.tensor(kept, count).to(at::kFloat).mul(scale);
                 const at::Tensor sum = sums[sender].tensor(from, count).add(left);
                 const at::Tensor sent = at::empty_like(sum);
                 const std::span<std::byte> codes_here =
                     out.subspan(static_cast<std::size_t>(reduction_.code_bytes(done)),
                                 static_cast<std::size_t>(reduction_.code_bytes(count)));
                 const codec::Segment here = segment(from, count, reduction_.block);
                 codec::encode(codec, here, draws_of(sender), floats(sum.data_ptr<float>(), count),
                               codes_here);
                 codec::decode(codec, here, draws_, codes_here,
                               {sent.data_ptr<float>(), static_cast<std::size_t>(count)});
                 after.tensor(kept, count).copy_(sum.sub(sent).div(scale));
               }
             });
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
      codec::decode(reduction_.sums.codec, segment(first(rank) + done, count, reduction_.block),
                    draws_,
                    bytes_of(codes, static_cast<std::int64_t>(sender) * bytes + before, some),
                    {decoded.data() + sender * kTogether, static_cast<std::size_t>(count)});
    comm::tree_reduce(out + done, leaves, count, DType::kF32, comm::Reduce::kSum);
  }
}

void CodedSlices::encode_result(int rank, const float* slice, std::byte* codes) const {
  const std::int64_t count = elements(rank);
  codec::encode(reduction_.sums.back.value(), segment(first(rank), count, reduction_.back_block),
                codec::with_sender(draws_, codec::kWhole), floats(slice, count),
                {codes, static_cast<std::size_t>(reduction_.back_bytes(count))});
}

void CodedSlices::decode_result(int rank, const std::byte* codes, float* slice) const {
  const std::int64_t count = elements(rank);
  codec::decode(reduction_.sums.back.value(), segment(first(rank), count, reduction_.back_block),
                {}, {codes, static_cast<std::size_t>(reduction_.back_bytes(count))},
                {slice, static_cast<std::size_t>(count)});
}

}  // namespace trireme::exec
