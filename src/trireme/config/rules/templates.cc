#include "trireme/config/rules/templates.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/patterns.h"
#include "trireme/config/fields/fields.h"
#include "trireme/config/values/nearest.h"

namespace trireme::config {
namespace {

std::string as_text(const Value& value) {
  const auto* text = std::get_if<std::string>(&value);
  return text ? *text : write_value(value);
}

std::string assigned(const Field& field, const Value& value) {
  return fmt::format("{}={}", field.key, as_text(value));
}

const Field& field_of(std::string_view key) {
  const Field* field = find_field(key);
  TRIREME_CHECK(field != nullptr, "a rule names {}, which is no key", key);
  return *field;
}

std::string shown(std::string_view key, const Job& job) {
  return assigned(field_of(key), field_of(key).get(job));
}

// Shows keys in braces with their values, and `number` for {}.
std::string with_values(std::string_view text, const Job& job, double number = 0) {
  std::string filled;
  for (std::size_t open = text.find('{'); open != text.npos; open = text.find('{')) {
    const std::size_t close = text.find('}', open);
    filled += text.substr(0, open);
    const std::string_view key = text.substr(open + 1, close - open - 1);
    filled += key.empty() ? fmt::format("{}", number) : shown(key, job);
    text.remove_prefix(close + 1);
  }
  return filled.append(text);
}

// "KEY=24 or KEY=32" for the multiples of `step` from `least` on around another value.
std::string nearest_multiples(std::string_view key, std::int64_t value, std::int64_t step,
                              std::int64_t least) {
  const std::int64_t below = value / step * step;
  const std::string lower = below >= least ? fmt::format("{}={} or ", key, below) : "";
  return fmt::format("{}{}={}", lower, key, std::max(below + step, least));
}

// The divisor of `whole` that is nearest to `wanted`.
std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wanted) {
  for (std::int64_t apart = 0; apart < whole; ++apart) {
    if (wanted - apart > 0 && whole % (wanted - apart) == 0) return wanted - apart;
    if (wanted + apart <= whole && whole % (wanted + apart) == 0) return wanted + apart;
  }
  return whole;
}

std::string or_other(std::string_view other) {
  return other.empty() ? "" : fmt::format(", or {}", other);
}

std::string either(const std::string& own, std::string_view other) {
  return own.empty() ? std::string(other.empty() ? "change one of them" : other)
                     : own + or_other(other);
}

// A computed number cannot be set.
void check_way_out(const Number& number, std::string_view other) {
  TRIREME_CHECK(!number.key.empty() || !other.empty(),
                "a rule of a computed number has no way out");
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (std::size_t at = text.find(separator); at != text.npos; at = text.find(separator)) {
    parts.push_back(text.substr(0, at));
    text.remove_prefix(at + separator.size());
  }
  parts.push_back(text);
  return parts;
}

// Keys that a setting names, and the values that it means.
class Setting {
 public:
  explicit Setting(std::string_view text) {
    const std::size_t equals = text.find('=');
    for (const std::string_view pattern : split_list(text.substr(0, equals)))
      for (const Field& field : fields())
        if (matches(pattern, field.key)) keys_.emplace_back(&field, field.get(Job()));
    TRIREME_CHECK(!keys_.empty(), "a rule names {}, which is no key", text);
    if (equals == text.npos) return;
    for (const std::string_view value : split(text.substr(equals + 1), "|"))
      values_.emplace_back(value);
  }

  // "lora.alpha=8, lora.dropout=0.1"; empty: the job has it nowhere.
  std::string seen(const Job& job) const {
    std::string text;
    for (const auto& [field, plain] : keys_) {
      const Value value = field->get(job);
      const bool has = values_.empty()
                           ? value != plain
                           : std::ranges::find(values_, as_text(value)) != values_.end();
      if (has) text += (text.empty() ? "" : ", ") + assigned(*field, value);
    }
    return text;
  }
  bool holds(const Job& job) const { return !seen(job).empty(); }

  const std::string& key() const { return keys_.front().first->key; }
  std::string needed() const { return fmt::format("{}={}", key(), join_names(values_, " or ")); }
  std::string without() const { return assigned(*keys_.front().first, keys_.front().second); }

 private:
  std::vector<std::pair<const Field*, Value>> keys_;  // with their defaults
  std::vector<std::string> values_;                   // empty: all but the default
};

}  // namespace

Check refused(std::string_view setting, std::string_view reason, std::string_view way) {
  std::vector<Setting> together;
  for (const std::string_view part : split(setting, " with ")) together.emplace_back(part);
  return [=](const Job& job) {
    std::string all;
    for (const Setting& one : together) {
      const std::string seen = one.seen(job);
      if (seen.empty()) return;
      all += (all.empty() ? "" : " with ") + seen;
    }
    fail(ErrorKind::kUsage, "{}: {}; {}", all, with_values(reason, job), with_values(way, job));
  };
}

Check needs(std::string_view setting, std::initializer_list<std::string_view> needed,
            std::string_view reason, std::string_view other) {
  std::vector<Setting> all(needed.begin(), needed.end());
  return [=, setting = Setting(setting), all = std::move(all)](const Job& job) {
    if (!setting.holds(job)) return;
    for (const Setting& one : all)
      if (!one.holds(job))
        fail(ErrorKind::kUsage, "{} with {}: {}{}, or {}", setting.seen(job), shown(one.key(), job),
             reason.empty() ? "needs " : with_values(reason, job) + "; set ", one.needed(),
             other.empty() ? setting.without() : other);
  };
}

Number::Number(const char* key)
    : key(key),
      value([field = &field_of(key)](const Job& job) {
        const Value value = field->get(job);
        const auto* whole = std::get_if<std::int64_t>(&value);
        return whole ? static_cast<double>(*whole) : std::get<double>(value);
      }),
      shown([key](const Job& job) { return config::shown(key, job); }) {}

Number::Number(int value)
    : value([value](const Job&) { return value; }),
      shown([value](const Job&) { return fmt::format("{}", value); }) {}

Number::Number(std::string_view text, const std::function<double(const Job&)>& value)
    : value(value),
      shown([text, value](const Job& job) { return with_values(text, job, value(job)); }) {}

Check at_most(const Number& number, const Number& bound, std::string_view reason,
              std::string_view other) {
  check_way_out(number, other);
  return [=](const Job& job) {
    const double limit = bound.value(job);
    if (number.value(job) <= limit) return;
    const std::string own =
        number.key.empty() || limit <= 0 ? "" : fmt::format("lower it to {} or less", limit);
    fail(ErrorKind::kUsage, "{} is more than {}: {}; {}", number.shown(job), bound.shown(job),
         with_values(reason, job), either(own, with_values(other, job, limit)));
  };
}

Check at_least(const Number& number, const Number& bound, std::string_view reason,
               std::string_view other) {
  check_way_out(number, other);
  return [=](const Job& job) {
    const double limit = bound.value(job);
    if (number.value(job) >= limit) return;
    const std::string own = number.key.empty() ? "" : fmt::format("raise it to {} or more", limit);
    fail(ErrorKind::kUsage, "{} is less than {}: {}; {}", number.shown(job), bound.shown(job),
         with_values(reason, job), either(own, with_values(other, job, limit)));
  };
}

Check equal_to(const char* key, const Number& wanted, std::string_view reason,
               std::string_view other) {
  return [=, number = Number(key)](const Job& job) {
    if (number.value(job) != wanted.value(job))
      fail(ErrorKind::kUsage, "{} is not {}: {}; set {}={}{}", number.shown(job), wanted.shown(job),
           with_values(reason, job), key, wanted.value(job), or_other(other));
  };
}

Check shared_by_tp(const Number& parts) {
  return at_most("parallel.tp", parts, "a rank needs at least one");
}

Check multiple_of(const Number& number, const Number& divisor, std::string_view what,
                  const std::function<std::string(const Job&)>& more) {
  return [=](const Job& job) {
    const auto whole = static_cast<std::int64_t>(number.value(job)),
               part = static_cast<std::int64_t>(divisor.value(job));
    if (whole % part == 0) return;
    std::string ways;
    if (!number.key.empty()) ways = nearest_multiples(number.key, whole, part, part);
    if (!divisor.key.empty())
      ways += fmt::format("{}{}={}", ways.empty() ? "" : ", or ", divisor.key,
                          nearest_divisor(whole, part));
    fail(ErrorKind::kUsage, "{} is not divisible by {}{}{}; nearest that work: {}{}",
         number.shown(job), divisor.shown(job), what.empty() ? "" : ", ", what, ways,
         more ? more(job) : "");
  };
}

Check turned_heads(const char* hidden, const char* heads, const Turned& turned,
                   std::string_view other) {
  return [=, all = Number(hidden), count = Number(heads)](const Job& job) {
    const double width = all.value(job) / count.value(job);
    if (width >= static_cast<double>(turned.least) &&
        std::fmod(width, static_cast<double>(turned.step)) == 0)
      return;
    const auto of_heads = static_cast<std::int64_t>(count.value(job));
    fail(ErrorKind::kUsage,
         "{} / {} = {:.6g} per head: rotary positions{} need a multiple of {}{}; nearest that "
         "work: {}{}",
         all.shown(job), count.shown(job), width, turned.axes, turned.step,
         turned.least > turned.step ? fmt::format(", {} or more", turned.least) : "",
         nearest_multiples(hidden, static_cast<std::int64_t>(all.value(job)),
                           of_heads * turned.step, of_heads * turned.least),
         or_other(other));
  };
}

}  // namespace trireme::config
