// How often the host looks at a solve.
#pragma once

namespace spmvgpu {

struct Pace {
    bool each = false;  // after every iteration, for somebody wants to see it
    int every = 0;      // otherwise after so many; 0: after `first` of them, and then after ever more
    int first = 8;
    int period = 1;          // iterations after which the vectors play the same parts again
    int most = 1024;         // iterations that may pass between two looks
    bool recordable = true;  // whether an iteration may be recorded as a CUDA graph
};

}  // namespace spmvgpu
