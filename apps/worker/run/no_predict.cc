// Where TRIREME_FAMILIES=decoders leaves out the families that predict.
#include "apps/worker/subcommands.h"
#include "trireme/base/error.h"

namespace trireme::app {

int predict(const Arguments&) {
  fail(ErrorKind::kUsage,
       "trireme predict: this build, as ./dev quickstart makes it, has no family that predicts; "
       "./dev build adds them "
       "(CMake: TRIREME_FAMILIES=all)");
}

}  // namespace trireme::app
