// Threads that stay on one core each, for work whose place matters.
#pragma once

#include <functional>

namespace pymicro {

// Runs task(worker) once on each of `threads` threads and returns when all are done. Worker i is
// always the same thread, bound to the i-th core that this process may use (several share a core
// if there are more). The caller sleeps meanwhile and is not bound.
void on_cores(int threads, const std::function<void(int worker)>& task);

}  // namespace pymicro
