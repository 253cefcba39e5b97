// Handling of SIGBUS in a process that reads a mapped file of which a part is gone.
#pragma once

namespace trireme::app {

// From now on SIGBUS ends the process with one line that names the file, and the exit code of unusable data. The kernel
// sends it where a mapped file was cut short or cannot be read.
void name_file_of_bus_errors();

}  // namespace trireme::app
