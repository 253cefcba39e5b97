#include "trireme/data/loaders/tokens/preference_source.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/data/chat/prepare.h"
#include "trireme/data/chat/rollouts.h"
#include "trireme/model/comparisons/policy.h"

namespace trireme::loaders {
namespace {

// Without samples of which a cut answer lost all tokens. Throws Error{kData} if none is left.
PackedRows sample_rows(const config::Job& job, const PackedSplit& split) {
  const config::Compares compares = config::compares(job.preference.loss);
  const std::int64_t seq_len = job.model.seq_len;
  PackedRows rows = chat::packed_samples(compares, split.tokens, seq_len,
                                         config::parse_chat(job.data.chat).longer);
  if (rows.empty()) return rows;
  const auto each = chat::documents_of(compares);
  for (std::vector<PackedPiece>& row : rows) {
    std::vector<PackedPiece> kept;
    for (auto one = row.begin(); one != row.end(); one += each)
      if (std::all_of(one, one + each, [&](const PackedPiece& piece) {
            return marked_tokens(split.loss, piece) > 0;
          }))
        kept.insert(kept.end(), one, one + each);
    row = std::move(kept);
  }
  std::erase_if(rows, [](const std::vector<PackedPiece>& row) { return row.empty(); });
  if (rows.empty())
    fail(ErrorKind::kData,
         "model.seq_len={}: of every sample an answer lies beyond it, so nothing has loss; "
         "raise model.seq_len",
         seq_len);
  return rows;
}

// Null where the job names none yet: for the run that computes it, and for trials.
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

bool lacks_numbers(const config::Preference& preference, const chat::RolloutFile& rollouts) {
  return rollouts.log_probs().empty() || (preference.kl > 0 && rollouts.reference().empty());
}

AnswerNumbers rewarded_numbers(const config::Preference& preference,
                               const chat::RolloutFile& rollouts,
                               std::span<const double> reference) {
  const auto given_or = [&](std::span<const double> given) {
    return given.empty() ? reference : given;
  };
  std::vector<comparisons::Rewarded> answers;
  for (std::size_t i = 0; i < rollouts.rewards().size(); ++i)
    answers.push_back({.group = static_cast<std::int64_t>(rollouts.groups()[i]),
                       .reward = rollouts.rewards()[i]});
  return {.reference = given_or(rollouts.reference()),
          .old = given_or(rollouts.log_probs()),
          .advantages = comparisons::advantages(answers, config::divides_advantages(preference)),
          .rewards = {rollouts.rewards().begin(), rollouts.rewards().end()}};
}

}  // namespace

PreferenceSource::PreferenceSource(const config::Job& job, const PackedSplit& split,
                                   std::optional<std::uint64_t> seed, AnswerNumbers numbers,
                                   std::vector<std::shared_ptr<const void>> kept)
    : PackedSource(job, split, sample_rows(job, split), seed),
      preference_(job.preference),
      micro_batch_(job.run.micro_batch),
      numbers_(std::move(numbers)),
      kept_(std::move(kept)) {}

template <typename Body>
void PreferenceSource::for_pieces(std::int64_t place, const Body& body) const {
  std::int64_t begin = 0, count = 0;
  const std::int64_t each = chat::documents_of(config::compares(preference_.loss));
  for (const PackedPiece& piece : pieces(place)) {
    body(begin, piece, count++ / each);
    begin += piece.count;
  }
}

std::vector<at::Tensor> PreferenceSource::batch(std::int64_t first, std::int64_t count) const {
  std::vector<at::Tensor> all = PackedSource::batch(first, count);
  all.push_back(at::zeros({count, seq_len()}, at::kLong));
  all.push_back(at::zeros({count, seq_len()}, at::kDouble));
  const bool rewards = config::rewards_answers(preference_.loss);
  if (rewards)
    for (int i = 0; i < 3; ++i) all.push_back(at::zeros({count, seq_len()}, at::kDouble));
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
      const bool prompt =
          preference_.loss == config::PreferenceLoss::kOrpo && piece.document % 2 == 0;
      for (std::int64_t i = 0; i < piece.count; ++i) {
        if (marks[i + 1] != 0) {
          answer[i] = config::answer_code(comparison, static_cast<config::Answer>(marks[i + 1]));
          if (!numbers_.reference.empty()) reference[i] = numbers_.reference[token + i + 1];
        } else if (prompt) {
          target[i] = ids[i + 1];
          answer[i] = config::answer_code(comparison, config::Answer::kPrompt);
        }
      }
      if (rewards) fill_rewards(all, row * seq_len() + begin, piece);
    });
  return all;
}

void PreferenceSource::fill_rewards(std::vector<at::Tensor>& inputs, std::int64_t from,
                                    const PackedPiece& piece) const {
  const std::vector<std::int64_t> marks = read_piece(loss(), piece);
  const std::int64_t token = tokens().document(piece.document).first + piece.first;
  auto *const old = inputs[5].data_ptr<double>() + from,
              *const advantage = inputs[6].data_ptr<double>() + from,
              *const reward = inputs[7].data_ptr<double>() + from;
  for (std::int64_t i = 0; i < piece.count; ++i) {
    if (marks[i + 1] == 0) continue;
    if (!numbers_.old.empty()) old[i] = numbers_.old[token + i + 1];
    advantage[i] = numbers_.advantages[piece.document];
    reward[i] = numbers_.rewards[piece.document];
  }
}

double PreferenceSource::weight_of_rows(std::int64_t first, std::int64_t count) const {
  const config::Compares compares = config::compares(preference_.loss);
  std::int64_t documents = 0, marked = 0;
  for (std::int64_t place = first; place < first + count; ++place) {
    documents += std::ssize(pieces(place));
    if (compares == config::Compares::kRewards)
      for (const PackedPiece& piece : pieces(place)) marked += marked_tokens(loss(), piece);
  }
  const std::int64_t samples = documents / chat::documents_of(compares);
  return compares == config::Compares::kRewards
             ? comparisons::policy_weight(preference_, samples, marked)
             : static_cast<double>(samples);
}

// A micro-batch may have a weight of its own.
double PreferenceSource::weight(std::int64_t first, std::int64_t count) const {
  double all = 0;
  for (std::int64_t place = first; place < first + count; place += micro_batch_)
    all += weight_of_rows(place, std::min(micro_batch_, first + count - place));
  return all;
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

bool needs_reference(const config::Job& job, const Path& dataset) {
  const config::Preference& preference = job.preference;
  if (!config::rewards_answers(preference.loss)) return config::uses_reference(preference.loss);
  return lacks_numbers(preference,
                       chat::RolloutFile(dataset, "train", text::open_dataset(dataset).train));
}

Sources open_preferences(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  const auto [train, held_out] = open_packed(dataset, evaluated, "preferences");
  const text::Dataset& opened = *train.dataset;
  chat::check_preferences(opened, job.preference.loss);
  const bool rewards = config::rewards_answers(job.preference.loss);
  const std::shared_ptr<const Reference> reference =
      needs_reference(job, dataset) ? open_reference(job, opened) : nullptr;
  const auto source = [&, reference = reference](const PackedSplit& split, const char* name,
                                                 std::optional<std::uint64_t> seed) {
    AnswerNumbers numbers;
    std::vector<std::shared_ptr<const void>> kept = {reference};
    if (reference != nullptr)
      numbers.reference = &split.tokens == &opened.train ? reference->train() : reference->val();
    if (rewards) {
      const auto rollouts = std::make_shared<const chat::RolloutFile>(dataset, name, split.tokens);
      numbers = rewarded_numbers(job.preference, *rollouts, numbers.reference);
      kept.push_back(rollouts);
    }
    return std::make_unique<PreferenceSource>(job, split, seed, std::move(numbers),
                                              std::move(kept));
  };
  const bool same = evaluated == Evaluated::kTraining;
  return {.train = source(train, "train", static_cast<std::uint64_t>(job.data.seed)),
          .held_out = source(held_out, same ? "train" : "val", std::nullopt),
          .digest = opened.digest,
          .vocabulary = opened.tokenizer.digest()};
}

}  // namespace trireme::loaders
