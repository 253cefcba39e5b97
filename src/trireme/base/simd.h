// Loops compiled once per instruction set and chosen when the program starts.
#pragma once

// Put before a function whose loops the compiler vectorises by itself. Contraction is off in this
// project, so every version gives the same bits. Sanitizers cannot run the loader's choice.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define TRIREME_SIMD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define TRIREME_SIMD_CLONES
#endif

// Inlined into each version of its callers.
#define TRIREME_SIMD_INLINE [[gnu::always_inline]] inline
