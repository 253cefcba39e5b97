#include "trireme/data/loaders/tokens/preference_source.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/chat/prepare.h"

namespace trireme::loaders {
namespace {

// Without comparisons of which a cut answer lost all tokens. Throws Error{kData} if none is left.
PackedRows comparison_rows(const config::Job& job, const PackedSplit& split) {
  const std::int64_t seq_len = job.model.seq_len;
  PackedRows rows =
      chat::packed_comparisons(split.tokens, seq_len, config::parse_chat(job.data.chat).longer);
  if (rows.empty()) return rows;
  for (std::vector<PackedPiece>& row : rows) {
    std::vector<PackedPiece> kept;
    for (std::size_t i = 0; i < row.size(); i += 2)
      if (marked_tokens(split.loss, row[i]) > 0 && marked_tokens(split.loss, row[i + 1]) > 0)
        kept.insert(kept.end(), {row[i], row[i + 1]});
    row = std::move(kept);
  }
  std::erase_if(rows, [](const std::vector<PackedPiece>& row) { return row.empty(); });
  if (rows.empty())
    fail(ErrorKind::kData,
         "model.seq_len={}: of every comparison an answer lies beyond it, so nothing has loss; "
         "raise model.seq_len",
         seq_len);
  return rows;
}

std::shared_ptr<const Reference> open_reference(const config::Job& job,
                                                const text::Dataset& dataset) {
  if (job.preference.reference.empty()) return nullptr;
  auto reference = std::make_shared<const Reference>(job.preference.reference);
  const auto fits = [](std::span<const double> numbers, const text::TokenFile& file) {
    return std::ssize(numbers) == file.tokens();
  };
  if (reference->record().data != dataset.digest || !fits(reference->train(), dataset.train) ||
      !fits(reference->val(), dataset.val))
    fail(ErrorKind::kData,
         "preference.reference={}: has log-probabilities of the data set {}, and this one is {}; "
         "let training write another directory: name one that does not exist",
         job.preference.reference, reference->record().data, dataset.digest);
  return reference;
}

}  // namespace

PreferenceSource::PreferenceSource(const config::Job& job, const PackedSplit& split,
                                   std::optional<std::uint64_t> seed,
                                   std::shared_ptr<const Reference> reference,
                                   std::span<const double> numbers)
    : PackedSource(job, split, comparison_rows(job, split), seed),
      loss_(job.preference.loss),
      reference_(std::move(reference)),
      numbers_(numbers) {}

template <typename Body>
void PreferenceSource::for_pieces(std::int64_t place, const Body& body) const {
  std::int64_t begin = 0, count = 0;
  for (const PackedPiece& piece : pieces(place)) {
    body(begin, piece, count++ / 2);
    begin += piece.count;
  }
}

std::vector<at::Tensor> PreferenceSource::batch(std::int64_t first, std::int64_t count) const {
  std::vector<at::Tensor> all = PackedSource::batch(first, count);
  all.push_back(at::zeros({count, seq_len()}, at::kLong));
  all.push_back(at::zeros({count, seq_len()}, at::kDouble));
  for (std::int64_t row = 0; row < count; ++row)
    for_pieces(first + row, [&](std::int64_t begin, const PackedPiece& piece,
                                std::int64_t comparison) {
      const std::vector<std::int64_t> ids = read_piece(tokens(), piece),
                                      marks = read_piece(loss(), piece);
      const std::int64_t token = tokens().document(piece.document).first + piece.first;
      auto* const target = all[1].data_ptr<std::int64_t>() + row * seq_len() + begin;
      auto* const answer = all[3].data_ptr<std::int64_t>() + row * seq_len() + begin;
      auto* const reference = all[4].data_ptr<double>() + row * seq_len() + begin;
      // Of the chosen answer, the first of two.
      const bool prompt = loss_ == config::PreferenceLoss::kOrpo && piece.document % 2 == 0;
      for (std::int64_t i = 0; i < piece.count; ++i) {
        if (marks[i + 1] != 0) {
          answer[i] = config::answer_code(comparison, static_cast<config::Answer>(marks[i + 1]));
          if (!numbers_.empty()) reference[i] = numbers_[token + i + 1];
        } else if (prompt) {
          target[i] = ids[i + 1];
          answer[i] = config::answer_code(comparison, config::Answer::kPrompt);
        }
      }
    });
  return all;
}

double PreferenceSource::weight(std::int64_t first, std::int64_t count) const {
  std::int64_t all = 0;
  for (std::int64_t place = first; place < first + count; ++place)
    all += std::ssize(pieces(place)) / 2;
  return static_cast<double>(all);
}

at::Tensor PreferenceSource::places(std::int64_t first, std::int64_t count) const {
  const at::Tensor all = at::full({count, seq_len()}, -1, at::kLong);
  for (std::int64_t row = 0; row < std::min(count, samples() - first); ++row)
    for_pieces(first + row, [&](std::int64_t begin, const PackedPiece& piece, std::int64_t) {
      const std::vector<std::int64_t> marks = read_piece(loss(), piece);
      const std::int64_t token = tokens().document(piece.document).first + piece.first;
      auto* const place = all.data_ptr<std::int64_t>() + row * seq_len() + begin;
      for (std::int64_t i = 0; i < piece.count; ++i)
        if (marks[i + 1] != 0) place[i] = token + i + 1;
    });
  return all;
}

Sources open_preferences(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  const auto [train, held_out] = open_packed(dataset, evaluated, "preferences");
  const text::Dataset& opened = *train.dataset;
  chat::check_preferences(opened, job.preference.loss);
  const std::shared_ptr<const Reference> reference = open_reference(job, opened);
  std::span<const double> trained, held;
  if (reference != nullptr) {
    trained = reference->train();
    held = evaluated == Evaluated::kTraining ? trained : reference->val();
  }
  return {
      .train = std::make_unique<PreferenceSource>(
          job, train, static_cast<std::uint64_t>(job.data.seed), reference, trained),
      .held_out = std::make_unique<PreferenceSource>(job, held_out, std::nullopt, reference, held),
      .digest = opened.digest,
      .vocabulary = opened.tokenizer.digest()};
}

}  // namespace trireme::loaders
