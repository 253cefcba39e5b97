# Sources that an option leaves out, as regular expressions over paths. Each option has one source, no_*.cc, that stands in
# for what it leaves out and says how to get it.
set(TRIREME_LEFT_OUT)
set(TRIREME_IS_PARTIAL OFF)

# trireme_optional(IS_BUILT NO_SOURCE PATTERN...)
function(trireme_optional built stand_in)
  if(built)
    list(APPEND TRIREME_LEFT_OUT "/${stand_in}\\.cc$")
  else()
    list(APPEND TRIREME_LEFT_OUT ${ARGN})
    set(TRIREME_IS_PARTIAL ON PARENT_SCOPE)
  endif()
  set(TRIREME_LEFT_OUT ${TRIREME_LEFT_OUT} PARENT_SCOPE)
endfunction()

# trireme_built(VARIABLE): leaves out of a list what options leave out.
function(trireme_built variable)
  set(sources ${${variable}})
  foreach(pattern ${TRIREME_LEFT_OUT})
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  set(${variable} ${sources} PARENT_SCOPE)
endfunction()

include(cmake/families.cmake)
string(COMPARE EQUAL "${TRIREME_FAMILIES}" all all_families)
trireme_optional(${all_families} worker/run/no_predict "/worker/run/predict\\.cc$")
trireme_optional(${TRIREME_SYNTH} no_synth "/data/synthetic/" "/trireme/data/synth\\.cc$")
trireme_optional(${TRIREME_BENCH} no_bench
  "/worker/bench/(bench_(context|kernels|memory|pipeline|recompute|step)|gemm_limit)\\.cc$")
