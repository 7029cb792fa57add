// Streams for any CPU: vectors of 16 bytes, which every 64-bit machine has, and ordinary stores.
#include <algorithm>
#include <type_traits>

#include "memory_stream.hpp"

#if defined(__GNUC__)
#define INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 4")
#endif

namespace pymicro {
namespace {
#define NAMESPACE portable
#define TARGET
#define VECTOR_BYTES 16
#include "memory_stream.inc"
}  // namespace

const StreamPath kStreamPathPortable = {"portable", [] { return true; }, portable::find};

}  // namespace pymicro
#else
#error "The streams need GCC's or Clang's vector types."
#endif
