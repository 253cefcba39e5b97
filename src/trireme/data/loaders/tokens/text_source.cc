#include "trireme/data/loaders/tokens/text_source.h"

#include <utility>

#include "trireme/data/loaders/tokens/token_loader.h"
#include "trireme/data/text/dataset.h"

namespace trireme::loaders {
namespace {

using Dataset = std::shared_ptr<const text::Dataset>;

class TextSource final : public Source {
 public:
  TextSource(const config::Job& job, Dataset dataset)
      : dataset_(std::move(dataset)),
        seq_len_(job.model.seq_len),
        loader_(dataset_->train, seq_len_, job.model.vocab,
                static_cast<std::uint64_t>(job.data.seed), job.data.documents) {}

  std::int64_t samples() const override { return loader_.samples_per_epoch(); }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    return loader_.batch(first, count);
  }
  double weight(std::int64_t, std::int64_t count) const override {
    return static_cast<double>(count * seq_len_);
  }

 private:
  Dataset dataset_;
  std::int64_t seq_len_;
  TokenLoader loader_;
};

class HeldOutText final : public Source {
 public:
  HeldOutText(const config::Job& job, Dataset dataset, Evaluated evaluated)
      : dataset_(std::move(dataset)),
        loader_(evaluated == Evaluated::kHeldOut ? dataset_->val : dataset_->train,
                job.model.seq_len, job.model.vocab, job.data.documents) {}

  std::int64_t samples() const override { return loader_.samples(); }
  std::vector<at::Tensor> batch(std::int64_t first, std::int64_t count) const override {
    return loader_.batch(first, count);
  }
  double weight(std::int64_t first, std::int64_t count) const override {
    return static_cast<double>(loader_.valid_tokens(first, count));
  }

 private:
  Dataset dataset_;
  EvaluationLoader loader_;
};

}  // namespace

Sources open_text(const config::Job& job, const Path& dataset, Evaluated evaluated) {
  const auto opened = std::make_shared<const text::Dataset>(text::open_dataset(dataset));
  const text::SplitInfo& held_out =
      evaluated == Evaluated::kHeldOut ? opened->val_info : opened->train_info;
  return {.train = std::make_unique<TextSource>(job, opened),
          .held_out = std::make_unique<HeldOutText>(job, opened, evaluated),
          .digest = opened->digest,
          .vocabulary = opened->tokenizer.digest(),
          .bytes_per_token = held_out.tokens == 0 ? 0
                                                  : static_cast<double>(held_out.text_bytes) /
                                                        static_cast<double>(held_out.tokens)};
}

}  // namespace trireme::loaders
