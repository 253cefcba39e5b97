// What a process says that reads a mapped file of which a part is gone.
#pragma once

namespace trireme::app {

// From now on SIGBUS, which the kernel sends where a file was cut short or cannot be read after it was mapped, ends the
// process with one line that names the file, and the exit code of unusable data.
void name_file_of_bus_errors();

}  // namespace trireme::app
