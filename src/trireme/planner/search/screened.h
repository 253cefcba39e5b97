// Screened: what the first two screens leave of a question's layouts.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "trireme/base/error.h"
#include "trireme/planner/search/search.h"

namespace trireme::planner {

struct Priced {
  Layout layout;
  Costs price;
  double estimate = 0;  // seconds by the second screen; 0: not asked
};

// Why layouts cannot be: the first reason, but one of memory gives way to others.
struct Refusal {
  std::optional<Error> error;
  void take(const Error& other);
};

class Screened {
 public:
  // The question is completed and must outlive this.
  Screened(const Question& question, Away away);

  const std::vector<Priced>& fitting() const { return fitting_; }
  const std::optional<Priced>& smallest() const { return smallest_; }  // of all in memory
  // The layout with the least need of host memory among those whose offload does not fit into it.
  const std::optional<Priced>& crowded() const { return crowded_; }
  std::int64_t seen() const { return seen_; }

  // The `count` fastest by closed forms, estimated in detail and sorted, without those that the runtime refuses.
  // `count` more of them surely fit.
  std::vector<Priced> best(int count) const;

  // Nothing for what cannot be resolved or priced.
  std::optional<Priced> estimated(const Layout& layout) const;

  // The fastest layout among those that fit and for which `wanted` holds.
  std::optional<Priced> least(const std::function<bool(const Layout&)>& wanted) const;

  const Screen& screen() const { return screen_; }
  double limit() const;

  // Reason of the first refused layout; nothing if no layout was refused.
  const Refusal& refusal() const { return refusal_; }

 private:
  double actions(const Layout& layout) const;

  const Question& question_;
  Screen screen_;
  std::vector<Priced> fitting_;
  std::optional<Priced> smallest_, crowded_;
  mutable Refusal refusal_;
  std::int64_t seen_ = 0;
};

// The layout's job, resolved. Throws Error{kUsage}.
config::Job resolved(const Question& question, const Layout& layout);
// Why the runtime takes no such layout, without the way out; empty where it does.
std::string refusal_of(const Question& question, const Layout& layout);

// Whether a plan of all its micro-batches has more lines than it is worth: it only repeats itself.
bool too_long(const config::Job& job);

// Through the third screen; nothing where plan or memory refuse. Without `all`, plans of many micro-batches are made of fewer,
// whose memory is the same, and the rest is estimated.
std::optional<Option> compiled(const Question& question, const Priced& priced, bool all = false,
                               Refusal* why = nullptr);

}  // namespace trireme::planner
