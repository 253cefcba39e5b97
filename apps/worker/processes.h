// The world of processes that torchrun or `trireme train --nproc` describes in the environment.
#pragma once

#include <memory>
#include <string>

#include "trireme/comm/gloo/gloo_world.h"

namespace trireme::app {

// The variable's value, or `missing` where it is unset or empty.
std::string variable(const char* name, const char* missing);

// As comm::connect_gloo.
std::unique_ptr<comm::World> connect_processes(double timeout_s);

}  // namespace trireme::app
