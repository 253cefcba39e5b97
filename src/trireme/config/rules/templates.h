// Checks of rules, each with its sentence: the value seen, the value needed and the way out.
//
// A setting is written as users write it: "network.codec" is any value but the default, "optim.name=adamw|lion" one of
// two, "lora.* with lora.rank=0" a key of lora while the rank is 0. Other texts show a key in braces with its value:
// "{parallel.zero}" becomes "parallel.zero=3".
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "trireme/config/rules/rule.h"

namespace trireme::config {

// "SETTING: REASON; WAY".
Check refused(std::string_view setting, std::string_view reason,
              std::string_view way = "leave it out");

// "SETTING with SEEN: REASON; set NEEDED, or OTHER", for each that is needed. Without `other` the way out is the default
// of the setting.
Check needs(std::string_view setting, std::initializer_list<std::string_view> needed,
            std::string_view reason = "", std::string_view other = "");

// "SETTING with SEEN: it has no effect; set NEEDED, or leave it out".
inline Check only_with(std::string_view setting, std::string_view needed) {
  return needs(setting, {needed}, "it has no effect", "leave it out");
}

// A number that is compared: of a key, or a computed one that {} of the text shows, "2 x {parallel.cp} = {}".
struct Number {
  Number(const char* key);  // NOLINT(google-explicit-constructor): operands of a check
  Number(int value);        // NOLINT(google-explicit-constructor): the same
  Number(std::string_view text, const std::function<double(const Job&)>& value);

  std::string_view key;  // empty: none
  std::function<double(const Job&)> value;
  std::function<std::string(const Job&)> shown;
};

// "A is more than B: REASON; lower it to 8 or less, or OTHER", with B's number, which {} of OTHER is as well. A
// computed A has OTHER alone.
Check at_most(const Number& number, const Number& bound, std::string_view reason,
              std::string_view other = "");

// "A is less than B: REASON; raise it to 8 or more, or OTHER", with B's number, which {} of OTHER is as well. A
// computed A has OTHER alone.
Check at_least(const Number& number, const Number& bound, std::string_view reason,
               std::string_view other = "");

// "A=6 is not B=8: REASON; set A=8, or OTHER", of a key A.
Check equal_to(const char* key, const Number& wanted, std::string_view reason,
               std::string_view other);

// Parts of a layer, of which each tp rank has one or more.
Check shared_by_tp(const Number& parts);

// "A is not divisible by B, WHAT; nearest that work: A=6 or A=9, or B=4", of whole numbers and with those of both that are
// keys. `more` adds a way out.
Check multiple_of(const Number& number, const Number& divisor, std::string_view what = "",
                  const std::function<std::string(const Job&)>& more = {});

// Rotary positions turn pairs of a head's channels on each axis.
struct Turned {
  std::string_view axes{};  // " over row and column"
  std::int64_t step = 2, least = 2;
};
inline constexpr Turned kTurnsClips{.axes = " over time, row and column", .least = 6};

// "HIDDEN=36 / HEADS=4 = 9 per head: rotary positions over AXES need a multiple of 2, 6 or more; nearest that work:
// HIDDEN=32 or HIDDEN=40, or OTHER".
Check turned_heads(const char* hidden, const char* heads, const Turned& turned,
                   std::string_view other = "");

}  // namespace trireme::config
