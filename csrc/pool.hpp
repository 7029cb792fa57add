// Threads that stay between calls: they spin briefly for the next job, then sleep.
#pragma once

#include <functional>

namespace pymicro {

// Runs task(index, worker) for each index below `tasks` on at most `threads` threads, the caller
// being worker 0, and returns when all are done. Tasks are taken in order. One job at a time.
void parallel(int threads, int tasks, const std::function<void(int index, int worker)>& task);

}  // namespace pymicro
