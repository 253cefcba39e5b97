// Where TRIREME_SYNTH=OFF leaves generated data sets out.
#include "apps/trireme/commands.h"
#include "trireme/base/error.h"

namespace trireme::app {

int data_synth(const SynthOptions&) {
  fail(ErrorKind::kUsage,
       "trireme data synth: this build, as ./dev quickstart makes it, generates no data sets; "
       "./dev build adds them "
       "(CMake: TRIREME_SYNTH=ON)");
}

}  // namespace trireme::app
