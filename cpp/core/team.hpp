// The threads that the CPU's loops run on. They sleep at once when there is nothing to do, because the cores belong to
// others then: to NumPy's BLAS in the loop of a solver, to a neighbour on a busy machine. They ask the system to let
// them in at once when they are woken although others want the core, stay away from the core of the thread that calls,
// and nobody waits for one that has not woken up by the time the work is done.
#pragma once

#include <cstdint>

namespace spmvgpu::team {

// A loop over pieces: run(body, piece) for every piece from 0 to count - 1, each once, in no particular order.
struct Work {
    std::int64_t count;
    void (*run)(const void* body, std::int64_t piece);
    const void* body;
};

// Does the work on the calling thread and on idle ones of the team, at most `threads` in all. Returns when all of it is
// done, and then throws what a piece threw, the first one, or what check_interrupt() did between two of them. A piece
// that calls this runs its own pieces by itself.
void run(const Work& work, int threads);

}  // namespace spmvgpu::team
