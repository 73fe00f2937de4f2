// The steps of a projection, for a queue of either kind: included where they are compiled, for CPUs and for GPUs.
#pragma once

#include "solvers/preconditioners/projection.hpp"

namespace spmvgpu {

// y = P (m x), or P y if x is null. A null m stands for ones.
template <class T, class Queue>
void project_one(Queue& queue, const NullSpace<T>& space, const T* x, const T* m, T* y) {
    const int count = space.count;
    if (x != nullptr) {
        queue.each(space.n, read(x, maybe(m)), write(y), [=] SPMVGPU_DEVICE(T x, T m) { return put(m * x); });
    }
    queue.dots(space.scalars, space.n, space.basis, count, static_cast<const T*>(y), space.products, NoWork{});
    const auto all = [=] SPMVGPU_DEVICE(const typename NullSpace<T>::Scalars&) { return count; };
    queue.combine(space.scalars, space.n, space.basis, all, space.products, -1, y, NoWork{});
}

template <class T, class Queue>
void project(Queue& queue, const NullSpace<T>& space, const T* x, const T* m, T* y, index_t columns) {
    for (std::ptrdiff_t j = 0; j < columns; ++j) {
        project_one(queue, space, x == nullptr ? nullptr : x + j * space.n, m, y + j * space.n);
    }
}

}  // namespace spmvgpu
