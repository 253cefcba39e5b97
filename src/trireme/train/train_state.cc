#include "trireme/train/train_state.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "trireme/base/error.h"
#include "trireme/formats/json_fields.h"

namespace trireme::train {

std::string print(const TrainState& state) {
  Json json{{"updates", state.updates}};
  if (state.loss_scale)
    json["loss_scale"] = {{"scale", state.loss_scale->scale},
                          {"steps", state.loss_scale->steps},
                          {"last_overflow", state.loss_scale->last_overflow},
                          {"hysteresis", state.loss_scale->hysteresis}};
  if (state.non_finite > 0) json["non_finite"] = state.non_finite;
  return json.dump();
}

TrainState parse_train_state(const std::string& text, std::int64_t steps, const std::string& what) {
  const Json json = parse_json(text, what);
  const formats::JsonFields fields(json, what + ": train_state");
  fields.only({"updates", "loss_scale", "non_finite"});
  TrainState state{.updates = fields.has("updates") ? fields.integer("updates", 0, steps) : steps};
  if (fields.has("non_finite")) state.non_finite = fields.integer("non_finite", 0, steps);
  if (!fields.has("loss_scale")) return state;
  const formats::JsonFields scale(fields.object("loss_scale"), what + ": loss_scale");
  scale.only({"scale", "steps", "last_overflow", "hysteresis"});
  const Json& value = scale.any("scale");
  if (!value.is_number() || !(value.get<double>() > 0) || !std::isfinite(value.get<double>()))
    fail(ErrorKind::kData, "{}: a loss scale of {}; needs a number above 0", what, value.dump());
  state.loss_scale = {.scale = value.get<double>(),
                      .steps = scale.integer("steps", 0, steps),
                      .last_overflow = scale.integer("last_overflow", -1, steps),
                      .hysteresis = scale.integer("hysteresis", 1)};
  return state;
}

}  // namespace trireme::train
