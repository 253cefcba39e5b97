#include "trireme/train/run/train_state.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "trireme/base/error.h"
#include "trireme/base/hash.h"
#include "trireme/formats/json_fields.h"

namespace trireme::train {
namespace {

loaders::LeftOut left_out_from(const Json& ranges, const std::string& what) {
  std::vector<loaders::BatchRange> left_out;
  for (const Json& range : ranges) {
    if (!range.is_array() || range.size() != 2)
      fail(ErrorKind::kData, "{}: {}; needs the first batch and the last", what, range.dump());
    left_out.push_back({.first = formats::json_integer(range[0], what),
                        .last = formats::json_integer(range[1], what)});
  }
  return loaders::LeftOut(std::move(left_out));
}

Earlier earlier_from(const formats::JsonFields& fields) {
  fields.only({"steps", "updates"});
  const std::int64_t steps = fields.integer("steps");
  return {.steps = steps, .updates = fields.integer("updates", 0, steps)};
}

SpikeState spikes_from(const formats::JsonFields& fields) {
  fields.only({"losses", "high", "rewinds", "furthest"});
  SpikeState state{.high = fields.boolean("high"),
                   .rewinds = fields.integer("rewinds"),
                   .furthest = fields.integer("furthest")};
  for (const Json& loss : fields.array("losses")) {
    if (!loss.is_number() || !std::isfinite(loss.get<double>()))
      fail(ErrorKind::kData, "{}: a loss of {}; needs a finite number", fields.where(),
           loss.dump());
    state.losses.push_back(loss.get<double>());
  }
  return state;
}

}  // namespace

std::string print(const TrainState& state) {
  Json json{{"updates", state.updates}};
  if (state.earlier != Earlier{})
    json["earlier"] = {{"steps", state.earlier.steps}, {"updates", state.earlier.updates}};
  if (state.loss_scale)
    json["loss_scale"] = {{"scale", state.loss_scale->scale},
                          {"steps", state.loss_scale->steps},
                          {"last_overflow", state.loss_scale->last_overflow},
                          {"hysteresis", state.loss_scale->hysteresis}};
  if (state.non_finite > 0) json["non_finite"] = state.non_finite;
  if (state.merged > 0) json["merged"] = state.merged;
  if (state.island.island >= 0) json["island"] = to_json(state.island);
  for (const auto& [first, last] : state.left_out.ranges())
    json["left_out"].push_back(Json::array({first, last}));
  if (state.spikes != SpikeState{})
    json["spikes"] = {{"losses", state.spikes.losses},
                      {"high", state.spikes.high},
                      {"rewinds", state.spikes.rewinds},
                      {"furthest", state.spikes.furthest}};
  return json.dump();
}

TrainState parse_train_state(const std::string& text, std::int64_t steps, const std::string& what) {
  const Json json = parse_json(text, what);
  const formats::JsonFields fields(json, what + ": train_state");
  fields.only(
      {"updates", "earlier", "loss_scale", "non_finite", "left_out", "spikes", "merged", "island"});
  TrainState state{.updates = fields.has("updates") ? fields.integer("updates", 0, steps) : steps};
  if (fields.has("earlier"))
    state.earlier = earlier_from(formats::JsonFields(fields.object("earlier"), what + ": earlier"));
  if (fields.has("non_finite")) state.non_finite = fields.integer("non_finite", 0, steps);
  if (fields.has("merged")) state.merged = fields.integer("merged", 0, steps);
  if (fields.has("left_out"))
    state.left_out = left_out_from(fields.array("left_out"), what + ": left_out");
  if (fields.has("spikes"))
    state.spikes = spikes_from(formats::JsonFields(fields.object("spikes"), what + ": spikes"));
  if (fields.has("island"))
    state.island = islands::island_state_from(fields.object("island"), what + ": island");
  if (!fields.has("loss_scale")) return state;
  const formats::JsonFields scale(fields.object("loss_scale"), what + ": loss_scale");
  scale.only({"scale", "steps", "last_overflow", "hysteresis"});
  const Json& value = scale.any("scale");
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    fail(ErrorKind::kData, "{}: a loss scale of {}; needs a number above 0", what, value.dump());
  const std::int64_t scaled = state.earlier.steps + steps;
  state.loss_scale = {.scale = value.get<double>(),
                      .steps = scale.integer("steps", 0, scaled),
                      .last_overflow = scale.integer("last_overflow", -1, scaled),
                      .hysteresis = scale.integer("hysteresis", 1)};
  return state;
}

}  // namespace trireme::train
