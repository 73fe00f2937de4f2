// Sums over the ranks of a communicator, where a vector is in pieces of which this process has one.
#pragma once

#include <functional>

namespace spmvgpu {

// Adds what the other ranks have to so many numbers, in place: with the same bits on all of them. All call it alike.
using AddOverRanks = std::function<void(double* sums, int count)>;

}  // namespace spmvgpu
