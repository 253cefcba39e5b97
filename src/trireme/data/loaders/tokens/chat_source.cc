#include "trireme/data/loaders/tokens/chat_source.h"

#include <ATen/ops/full.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/chat/pack.h"
#include "trireme/data/loaders/sample_order.h"
#include "trireme/data/loaders/tokens/token_loader.h"
#include "trireme/data/text/dataset.h"

namespace trireme::loaders {
namespace {

using chat::PackedPiece;
using PackedRows = std::vector<std::vector<PackedPiece>>;
using Opened = std::shared_ptr<const text::Dataset>;

// The places of a range of a document, and its last target.
std::vector<std::int64_t> read(const text::TokenFile& file, const PackedPiece& piece) {
  std::vector<std::int64_t> values(static_cast<std::size_t>(piece.count + 1));
  file.read(file.document(piece.document).first + piece.first, std::span<std::int64_t>(values));
  return values;
}

// Tokens with loss among the targets of such a range.
std::int64_t trained(const text::TokenFile& loss, const PackedPiece& piece) {
  const std::vector<std::int64_t> marks = read(loss, piece);
  return std::accumulate(marks.begin() + 1, marks.end(), std::int64_t{0});
}

// Without ranges of long conversations that lost all answers. Throws Error{kData} if none is left.
PackedRows with_answers(PackedRows rows, const text::TokenFile& loss, std::int64_t seq_len) {
  for (std::vector<PackedPiece>& row : rows)
    std::erase_if(row, [&](const PackedPiece& piece) { return trained(loss, piece) == 0; });
  std::erase_if(rows, [](const std::vector<PackedPiece>& row) { return row.empty(); });
  if (rows.empty())
    fail(ErrorKind::kData,
         "model.seq_len={}: all answers lie beyond it, so nothing has loss; raise model.seq_len",
         seq_len);
  return rows;
}

class ChatSource final : public Source {
 public:
  // In the order of consumption that `seed` draws, without it in the order of rows.
  ChatSource(const config::Job& job, Opened dataset, const text::TokenFile& tokens,
             const text::TokenFile& loss, std::optional<std::uint64_t> seed)
      : dataset_(std::move(dataset)),
        tokens_(tokens),
        loss_(loss),
        seq_len_(job.model.seq_len),
        vocab_(job.model.vocab),
        rows_(chat::packed_documents(tokens, seq_len_, config::parse_chat(job.data.chat).longer)) {
    if (!rows_.empty()) rows_ = with_answers(std::move(rows_), loss, seq_len_);
    if (seed) order_.emplace(samples(), *seed);
  }

  std::int64_t samples() const override { return std::ssize(rows_); }

  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    std::vector<at::Tensor> all;
    for (const std::int64_t value : {std::int64_t{0}, kIgnoredTarget, std::int64_t{0}})
      all.push_back(at::full({count, seq_len_}, value, at::kLong));
    for (std::int64_t row = 0; row < count; ++row) fill(all, row, pieces(first + row));
    return all;
  }

  double weight(std::int64_t first, std::int64_t count) const override {
    std::int64_t sum = 0;
    for (std::int64_t place = first; place < first + count; ++place)
      for (const PackedPiece& piece : pieces(place)) sum += trained(loss_, piece);
    return static_cast<double>(sum);
  }

 private:
  const std::vector<PackedPiece>& pieces(std::int64_t place) const {
    static const std::vector<PackedPiece> kNone;  // after the last held-out row
    const std::int64_t row = order_ ? order_->at(place).sample : place;
    return row < samples() ? rows_[row] : kNone;
  }

  void fill(std::vector<at::Tensor>& batch, std::int64_t row,
            const std::vector<PackedPiece>& parts) const {
    std::int64_t* rows[3];
    for (std::size_t i = 0; i < 3; ++i)
      rows[i] = batch[i].data_ptr<std::int64_t>() + row * seq_len_;
    auto [token, target, position] = rows;
    const std::int64_t* const end = token + seq_len_;
    for (const PackedPiece& piece : parts) {
      const std::vector<std::int64_t> ids = read(tokens_, piece), loss = read(loss_, piece);
      check(ids);
      token = std::copy(ids.begin(), ids.end() - 1, token);
      for (std::size_t i = 1; i < ids.size(); ++i)
        *target++ = loss[i] != 0 ? ids[i] : kIgnoredTarget;
      std::iota(position, position + piece.count, 0);
      position += piece.count;
    }
    std::iota(position, position + (end - token), 0);
  }

  void check(const std::vector<std::int64_t>& ids) const {
    for (const std::int64_t id : ids)
      if (id < 0 || id >= vocab_)
        fail(ErrorKind::kData,
             "the conversations have token {}, outside the model's vocabulary of {}; set "
             "model.vocab, or data.tokenizer to the model's own",
             id, vocab_);
  }

  Opened dataset_;
  const text::TokenFile& tokens_;
  const text::TokenFile& loss_;
  std::int64_t seq_len_, vocab_;
  PackedRows rows_;
  std::optional<SampleOrder> order_;
};

}  // namespace

Sources open_chat(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  const auto opened = std::make_shared<const text::Dataset>(text::open_dataset(dataset));
  if (!opened->train_loss)
    fail(ErrorKind::kData,
         "{}: is a data set of text without marked answers; set data.source=text, or data.path to "
         "files of conversations",
         dataset.string());
  const bool held_out = evaluated == Evaluated::kHeldOut;
  return {.train = std::make_unique<ChatSource>(job, opened, opened->train, *opened->train_loss,
                                                static_cast<std::uint64_t>(job.data.seed)),
          .held_out = std::make_unique<ChatSource>(
              job, opened, held_out ? opened->val : opened->train,
              held_out ? *opened->val_loss : *opened->train_loss, std::nullopt),
          .digest = opened->digest,
          .vocabulary = opened->tokenizer.digest()};
}

}  // namespace trireme::loaders
