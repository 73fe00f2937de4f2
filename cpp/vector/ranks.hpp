// Sums over the ranks of a communicator, where a vector is in pieces of which this process has one.
#pragma once

#include <functional>

namespace spmvgpu {

// Adds what the other ranks have to so many numbers, in place: with the same bits on all of them. All call it alike.
using AddOverRanks = std::function<void(double* sums, int count)>;

// A sweep adds up as many numbers, of which it may use fewer, so that ranks need not agree on how many those are.
inline constexpr int kMaxSums = 3;

}  // namespace spmvgpu
