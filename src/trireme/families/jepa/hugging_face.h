// Keys of config.json that all models with the encoder of V-JEPA 2 have.
#pragma once

#include "trireme/checkpoint/convert/config_classes.h"

namespace trireme::convert {

void read_vjepa_encoder(const formats::JsonFields& fields, config::Job& job);
void write_vjepa_encoder(const config::Job& job, Json& json);
void as_vjepa(config::Job& job);

}  // namespace trireme::convert
