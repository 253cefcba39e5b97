#include "trireme/data/loaders/tokens/packed_source.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/loaders/tokens/token_loader.h"

namespace trireme::loaders {

std::pair<PackedSplit, PackedSplit> open_packed(const Path& dataset, Evaluated evaluated,
                                                std::string_view source) {
  const auto opened = std::make_shared<const text::Dataset>(text::open_dataset(dataset));
  if (!opened->train_loss)
    fail(ErrorKind::kData,
         "{}: is a data set of text without marked answers, and data.source={} needs these; set "
         "data.source=text, or data.path to files of conversations",
         dataset.string(), source);
  const PackedSplit train{opened, opened->train, *opened->train_loss};
  if (evaluated == Evaluated::kTraining) return {train, train};
  return {train, {opened, opened->val, *opened->val_loss}};
}

std::vector<std::int64_t> read_piece(const text::TokenFile& file, const PackedPiece& piece) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(piece.count + 1));
  file.read(file.document(piece.document).first + piece.first, std::span<std::int64_t>(values));
  return values;
}

std::int64_t marked_tokens(const text::TokenFile& loss, const PackedPiece& piece) {
  const std::vector<std::int64_t> marks = read_piece(loss, piece);
  return std::ssize(marks) - 1 - std::count(marks.begin() + 1, marks.end(), 0);
}

PackedSource::PackedSource(const config::Job& job, PackedSplit split, PackedRows rows,
                           std::optional<std::uint64_t> seed)
    : split_(std::move(split)),
      seq_len_(job.model.seq_len),
      vocab_(job.model.vocab),
      rows_(std::move(rows)) {
  if (seed) order_.emplace(samples(), *seed);
}

std::vector<at::Tensor> PackedSource::batch(std::int64_t first, std::int64_t count) const {
  std::vector<at::Tensor> all;
  for (const std::int64_t value : {std::int64_t{0}, kIgnoredTarget, std::int64_t{0}})
    all.push_back(at::full({count, seq_len_}, value, at::kLong));
  for (std::int64_t row = 0; row < count; ++row) fill(all, row, pieces(first + row));
  return all;
}

const std::vector<PackedPiece>& PackedSource::pieces(std::int64_t place) const {
  static const std::vector<PackedPiece> kNone;
  const std::int64_t row = order_ ? order_->at(place).sample : place;
  return row < samples() ? rows_[row] : kNone;
}

void PackedSource::fill(std::vector<at::Tensor>& batch, std::int64_t row,
                        const std::vector<PackedPiece>& parts) const {
  std::int64_t* rows[3];
  for (std::size_t i = 0; i < 3; ++i) rows[i] = batch[i].data_ptr<std::int64_t>() + row * seq_len_;
  auto [token, target, position] = rows;
  const std::int64_t* const end = token + seq_len_;
  for (const PackedPiece& piece : parts) {
    const std::vector<std::int64_t> ids = read_piece(tokens(), piece),
                                    marks = read_piece(loss(), piece);
    check(ids);
    token = std::copy(ids.begin(), ids.end() - 1, token);
    for (std::size_t i = 1; i < ids.size(); ++i)
      *target++ = marks[i] != 0 ? ids[i] : kIgnoredTarget;
    std::iota(position, position + piece.count, 0);
    position += piece.count;
  }
  std::iota(position, position + (end - token), 0);
}

void PackedSource::check(const std::vector<std::int64_t>& ids) const {
  for (const std::int64_t id : ids)
    if (id < 0 || id >= vocab_)
      fail(ErrorKind::kData,
           "the conversations have token {}, outside the model's vocabulary of {}; set "
           "model.vocab, or data.tokenizer to the model's own",
           id, vocab_);
}

}  // namespace trireme::loaders
