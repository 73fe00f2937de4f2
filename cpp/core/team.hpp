// The threads that run the CPU's loops. They sleep at once when there is nothing to do, because other programs need the
// cores then: NumPy's BLAS in the loop of a solver, or a neighbour on a busy machine. They ask the system to run them
// at once when woken, stay away from the core of the calling thread, and a loop does not wait for one that has not
// woken up by the time the work is done.
#pragma once

#include <cstdint>

namespace spmvgpu::team {

// A loop over pieces: run(body, piece) for every piece from 0 to count - 1, each once, in no particular order.
struct Work {
    std::int64_t count;
    void (*run)(const void* body, std::int64_t piece);
    const void* body;
};

// Does the work on the calling thread and on idle threads of the team, at most `threads` in all. Returns when all of it
// is done, and then throws the first exception of a piece or of check_interrupt() between two pieces. A piece that
// calls this runs its own pieces by itself.
void run(const Work& work, int threads);

}  // namespace spmvgpu::team
