// The action of a matrix exponential on vectors, by truncated Taylor series (Al-Mohy and Higham, Computing the Action
// of the Matrix Exponential, 2011).
#pragma once

#include <cstdint>
#include <memory>

#include "solvers/system/linear_map.hpp"
#include "solvers/system/memory.hpp"

namespace spmvgpu {

// exp(t A) is a power of exp(t / steps A), whose series is that of A - shift, times `growth`.
template <class T>
struct TaylorSteps {
    std::int64_t steps;
    double time;            // t / steps
    Wide<T> shift, growth;  // growth = exp(time * shift)
    int most_terms;         // of a series
};

template <class T>
class Exponential {
public:
    virtual ~Exponential() = default;

    // f = exp(t A) b for all columns, which lie one after the other; complete on return. The series of a column ends
    // with two terms that rounding makes nothing of.
    virtual void apply(const T* b, T* f, const TaylorSteps<T>& by) = 0;
};

// For vectors of length n, on the device of the memory.
template <class T>
std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>> A, index_t n, index_t columns,
                                                 std::shared_ptr<SolverMemory> memory);

namespace gpu {

template <class T>
std::unique_ptr<Exponential<T>> make_exponential(std::shared_ptr<const LinearMap<T>> A, index_t n, index_t columns,
                                                 std::shared_ptr<SolverMemory> memory);

}  // namespace gpu

}  // namespace spmvgpu
