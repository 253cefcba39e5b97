// The scoreboard as text and as JSON.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/scoreboard/board.h"

namespace trireme::scoreboard {
namespace {

using Number = std::optional<double>;

// About three digits that count.
std::string short_number(double number) {
  const double size = std::abs(number);
  if (size >= 1e7) return fmt::format("{:.2e}", number);
  const int decimals = size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.01 || size == 0 ? 2 : 4;
  return fmt::format("{:.{}f}", number, decimals);
}

std::string cell(const Number& number) { return number ? short_number(*number) : "-"; }

std::string describe(const Bar& bar) {
  std::string text;
  const auto add = [&](const char* what, const Number& limit) {
    if (limit) text += fmt::format("{}{} {:g}", text.empty() ? "" : ", ", what, *limit);
  };
  add("mean", bar.mape);
  add("max", bar.largest);
  add("9 of 10", bar.ninth);
  add("tau", bar.tau);
  add("regret", bar.regret);
  return text.empty() ? "-" : text;
}

const char* verdict(const AbilityScore& one) {
  if (one.score.cases == 0) return "no rows";
  return !one.has_bar ? "-" : one.met ? "met" : "MISSED";
}

std::string unit_of(const AbilityScore& one) {
  const std::string unit = scoreboard::unit(one.ability.measure);
  return unit.empty() && !one.cases.empty() ? one.cases.front().unit : unit;
}

void add_line(std::string& text, const std::string& name, const std::string& unit, const Score& s,
              const std::string& bar, const std::string& verdict) {
  const bool any = s.cases > 0;
  const auto of = [&](double number) { return any ? short_number(number) : "-"; };
  text += fmt::format("  {:<26} {:>5} {:>8} {:>7} {:>7} {:>7} {:>5} {:>6} {:>6} {:>6}  {:<27} {}\n",
                      name, s.cases, unit, of(s.mape), of(s.largest), of(s.bias), cell(s.coverage),
                      cell(s.tau), cell(s.regret), cell(s.null_mape), bar, verdict);
}

void add_cases(std::string& text, const AbilityScore& one) {
  for (const Case& c : one.cases) {
    if (!c.unscored.empty()) continue;  // named below in any case
    const double off = error(c.forecast, c.measured, one.ability.measure);
    text +=
        fmt::format("    {:<60} {:>10} {:<6} ours {:>10}  error {:>8}", c.row,
                    short_number(c.measured), c.unit, short_number(c.forecast), short_number(off));
    if (c.low && c.high)
      text += fmt::format("  band {} to {}", short_number(*c.low), short_number(*c.high));
    if (c.null) text += fmt::format("  null {}", short_number(*c.null));
    text += '\n';
  }
}

std::string joined(const auto& items) {
  std::string list;
  for (const auto& item : items) list += fmt::format("{}{}", list.empty() ? "" : ", ", item);
  return list;
}

void add_unscored(std::string& text, const TableScore& table) {
  for (const AbilityScore& one : table.abilities)
    for (const Case& c : one.cases)
      if (!c.unscored.empty())
        text += fmt::format("    not scored: {}, {} (line {}): {}\n", c.row, c.quantity,
                            joined(c.lines), c.unscored);
  if (!table.silent.empty())
    text += fmt::format("    not looked at: lines {}\n", joined(table.silent));
}

Json to_json(const Number& number) { return number ? Json(*number) : Json(nullptr); }

Json to_json(const Score& s) {
  const bool any = s.cases > 0;
  const auto of = [&](double number) { return any ? Json(number) : Json(nullptr); };
  return {{"cases", s.cases},      {"mean", of(s.mape)},          {"max", of(s.largest)},
          {"ninth", of(s.ninth)},  {"bias", of(s.bias)},          {"coverage", to_json(s.coverage)},
          {"tau", to_json(s.tau)}, {"regret", to_json(s.regret)}, {"null", to_json(s.null_mape)}};
}

Json to_json(const Bar& bar) {
  Json json = Json::object();
  const auto add = [&](const char* key, const Number& limit) {
    if (limit) json[key] = *limit;
  };
  add("mean", bar.mape);
  add("max", bar.largest);
  add("ninth", bar.ninth);
  add("tau", bar.tau);
  add("regret", bar.regret);
  return json;
}

Json to_json(const Case& c, Measure measure) {
  Json json = {{"row", c.row},   {"lines", c.lines},       {"group", c.group},
               {"unit", c.unit}, {"measured", c.measured}, {"forecast", c.forecast}};
  json["error"] = error(c.forecast, c.measured, measure);
  json["low"] = to_json(c.low);
  json["high"] = to_json(c.high);
  json["null"] = to_json(c.null);
  return json;
}

Json to_json(const AbilityScore& one, bool rows) {
  Json json = {{"quantity", one.ability.quantity}, {"unit", unit_of(one)}};
  json.update(to_json(one.score));
  json["left_out"] = one.left_out ? to_json(*one.left_out) : Json(nullptr);
  json["unmeasured"] = one.unmeasured ? to_json(*one.unmeasured) : Json(nullptr);
  json["null_model"] = one.ability.null;
  json["peer"] = one.ability.peer;
  json["bar"] = to_json(one.ability.bar);
  json["met"] = one.has_bar && one.score.cases > 0 ? Json(one.met) : Json(nullptr);
  json["unscored"] = Json::array();
  for (const Case& c : one.cases)
    if (!c.unscored.empty())
      json["unscored"].push_back({{"row", c.row}, {"lines", c.lines}, {"reason", c.unscored}});
  if (rows) json["rows"] = Json::array();
  for (const Case& c : one.cases)
    if (rows && c.unscored.empty()) json["rows"].push_back(to_json(c, one.ability.measure));
  return json;
}

struct Count {
  std::size_t bars = 0, met = 0, without = 0, unscored = 0;
};

Count count(const Scoreboard& board) {
  Count count;
  for (const TableScore& table : board.tables) {
    count.unscored += table.silent.size();
    for (const AbilityScore& one : table.abilities) {
      count.bars += one.has_bar;
      count.without += one.has_bar && one.score.cases == 0;
      count.met += one.met;
      count.unscored += one.unscored();
    }
  }
  return count;
}

}  // namespace

std::string text(const Scoreboard& board, bool rows) {
  std::string text = fmt::format(
      "  {:<26} {:>5} {:>8} {:>7} {:>7} {:>7} {:>5} {:>6} {:>6} {:>6}  {:<27} {}\n", "", "cases",
      "unit", "mean", "max", "bias", "cover", "tau", "regret", "null", "bar", "");
  for (const TableScore& table : board.tables) {
    text += fmt::format("\n{}: {} rows\n", table.name, table.rows);
    for (const AbilityScore& one : table.abilities) {
      add_line(text, one.ability.quantity, unit_of(one), one.score, describe(one.ability.bar),
               verdict(one));
      if (one.left_out) add_line(text, "  group left out", unit_of(one), *one.left_out, "", "");
      if (one.unmeasured)
        add_line(text, "  nothing measured", unit_of(one), *one.unmeasured, "", "");
      if (!one.ability.peer.empty()) text += fmt::format("    peer: {}\n", one.ability.peer);
      if (!one.ability.null.empty()) text += fmt::format("    null: {}\n", one.ability.null);
      if (rows) add_cases(text, one);
    }
    add_unscored(text, table);
  }
  const Count counts = count(board);
  text += fmt::format("\n{} of {} bars met; {} have nothing to be met on; {} cases not scored\n",
                      counts.met, counts.bars, counts.without, counts.unscored);
  if (!board.absent.empty()) text += fmt::format("no file: {}\n", joined(board.absent));
  if (!board.others.empty()) text += fmt::format("nothing forecast of: {}\n", joined(board.others));
  return text;
}

Json json(const Scoreboard& board, bool rows) {
  Json json = {{"tables", Json::array()}};
  for (const TableScore& table : board.tables) {
    Json one = {{"table", table.name}, {"rows", table.rows}, {"silent_lines", table.silent}};
    one["abilities"] = Json::array();
    for (const AbilityScore& ability : table.abilities)
      one["abilities"].push_back(to_json(ability, rows));
    json["tables"].push_back(std::move(one));
  }
  const Count counts = count(board);
  json["bars"] = counts.bars;
  json["met"] = counts.met;
  json["without_cases"] = counts.without;
  json["unscored"] = counts.unscored;
  json["absent"] = board.absent;
  json["others"] = board.others;
  return json;
}

}  // namespace trireme::scoreboard
