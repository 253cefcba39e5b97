#include "trireme/base/os/stack.h"

#include <fmt/core.h>

#include <fstream>
#include <iterator>

#ifdef TRIREME_DW
#include <cxxabi.h>
#include <elfutils/libdwfl.h>

#include <cstdlib>
#include <memory>
#endif

namespace trireme::os {

char process_state(int process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name = text.rfind(") ");  // which may hold anything
  return name == std::string::npos || name + 2 >= text.size() ? 'X' : text[name + 2];
}

#ifdef TRIREME_DW
namespace {

struct Reader {
  Dwfl* dwfl;
  int frames;  // of a thread
  int left = 0;
  std::vector<std::string> lines{};
};

std::string readable(const char* symbol) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(
      abi::__cxa_demangle(symbol, nullptr, nullptr, &status), std::free);
  return status == 0 ? text.get() : symbol;
}

int take_frame(Dwfl_Frame* frame, void* context) {
  Reader& reader = *static_cast<Reader*>(context);
  Dwarf_Addr address = 0;
  bool calls = false;
  if (reader.left-- == 0 || !dwfl_frame_pc(frame, &address, &calls)) return DWARF_CB_ABORT;
  if (calls) --address;  // a return address belongs to the call before it
  Dwfl_Module* const module = dwfl_addrmodule(reader.dwfl, address);
  const char* const symbol = module == nullptr ? nullptr : dwfl_module_addrname(module, address);
  constexpr std::size_t kWidest = 160;
  reader.lines.push_back("    " + (symbol == nullptr ? fmt::format("{:#x}", address)
                                                     : readable(symbol).substr(0, kWidest)));
  return DWARF_CB_OK;
}

int take_thread(Dwfl_Thread* thread, void* context) {
  Reader& reader = *static_cast<Reader*>(context);
  reader.lines.push_back(fmt::format("  thread {}", dwfl_thread_tid(thread)));
  reader.left = reader.frames;
  const std::size_t before = reader.lines.size();
  if (dwfl_thread_getframes(thread, take_frame, context) != 0 && reader.lines.size() == before)
    reader.lines.push_back(fmt::format("    {}", dwfl_errmsg(-1)));
  return DWARF_CB_OK;
}

}  // namespace

std::vector<std::string> stacks(int process, int frames) {
  Dwfl_Callbacks callbacks{};
  callbacks.find_elf = dwfl_linux_proc_find_elf;
  // Names of functions are enough: nothing is looked for elsewhere, nor downloaded.
  callbacks.find_debuginfo = [](Dwfl_Module*, void**, const char*, Dwarf_Addr, const char*,
                                const char*, GElf_Word, char**) { return -1; };
  const std::unique_ptr<Dwfl, void (*)(Dwfl*)> dwfl(dwfl_begin(&callbacks), dwfl_end);
  if (!dwfl || dwfl_linux_proc_report(dwfl.get(), process) != 0 ||
      dwfl_report_end(dwfl.get(), nullptr, nullptr) != 0 ||
      dwfl_linux_proc_attach(dwfl.get(), process, /*assume_ptrace_stopped=*/false) != 0)
    return {fmt::format("  no stack of process {}: {}", process, dwfl_errmsg(-1))};
  Reader reader{.dwfl = dwfl.get(), .frames = frames};
  dwfl_getthreads(dwfl.get(), take_thread, &reader);
  return std::move(reader.lines);
}
#else
std::vector<std::string> stacks(int process, int) {
  return {fmt::format("  no stack of process {}: this build is without libdw", process)};
}
#endif

}  // namespace trireme::os
