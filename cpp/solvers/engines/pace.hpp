// How often the host looks at a solve.
#pragma once

namespace spmvgpu {

struct Pace {
    bool each = false;  // after every iteration, for the caller's callback
    int every = 0;      // otherwise after this many; 0: after `first` of them, and then in growing intervals
    int first = 8;
    int direct = 32;         // iterations before one is recorded: a solve that ends within them gains nothing
    int period = 1;          // iterations after which the vectors are in their first roles again
    int most = 1024;         // iterations that may pass between two looks
    bool recordable = true;  // true if an iteration may be recorded as a CUDA graph
};

}  // namespace spmvgpu
