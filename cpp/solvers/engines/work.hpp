// The memory of a solve. A method takes all its vectors, bases and scalars in its constructor: without memory, the same
// constructor computes how much a solve needs.
#pragma once

#include <algorithm>

#include "solvers/engines/scales.hpp"
#include "solvers/engines/sweep.hpp"
#include "solvers/system/memory.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// The memory of a solve: bytes, and sums that it needs at once. With several columns the bytes are for vectors, and
// each column takes some more for its scalars.
struct Needs {
    std::size_t bytes;
    int sums;
    std::size_t of_column = 0;
};

template <class T>
class Work {
public:
    // With several columns, the data of the first one's scalars are at `of_column`.
    Work(const System<T>& system, const Limits& limits, char* memory = nullptr, char* of_column = nullptr)
        : system(system),
          limits(limits),
          arena_(memory),
          of_column_(of_column),
          b_(system.b),
          diagonal_(system.diagonal()) {
        if (!limits.scaled) return;
        scaled.magnitude = take<Magnitude>(1);
        vectors(scaled.b, scaled.product);
        if (diagonal_ != nullptr) vectors(scaled.diagonal);
        b_ = scaled.b, diagonal_ = scaled.diagonal;
    }

    const System<T>& system;
    const Limits& limits;

    // The system, as a method needs it.
    index_t n() const { return system.n; }
    T* x() const { return system.x; }
    const T* b() const { return b_; }
    const T* diagonal() const { return diagonal_; }  // M as a diagonal; null if it is none
    bool has_preconditioner() const { return system.M != nullptr; }
    bool has_operator() const { return system.has_operator(); }  // true if M is more than a diagonal

    // Memory that belongs to the scalars.
    template <class U>
    U* take(std::size_t count) {
        return (system.columns > 1 ? of_column_ : arena_).template take<U>(count);
    }
    template <class... Vectors>
    void vectors(Vectors*&... vectors) {
        ((vectors = arena_.template take<T>(elements())), ...);
    }
    Basis<T> basis(int vectors) {
        sums_ = std::max(sums_, vectors);
        const std::size_t stride = aligned(elements() * sizeof(T)) / sizeof(T);
        return {arena_.template take<T>(vectors * stride), stride};
    }
    // Where a product leaves inner products in parts; null if it leaves none.
    Wide<T>* parts_of_dots() {
        const index_t parts = system.A->dot_parts();
        return parts > 0 ? take<Wide<T>>(2 * std::size_t(parts)) : nullptr;
    }
    // The scalars of the method, with a history of the residuals between two looks at the solve.
    template <class S>
    S* scalars(int residuals = 1024) {
        history = take<double>(residuals);
        history_size = residuals;
        return take<S>(1);
    }

    Needs needs() const { return {arena_.bytes(), sums_, of_column_.bytes()}; }

    double* history = nullptr;
    std::int64_t history_size = 0;

    // Vectors and maps of a scaled system: see Context::scale().
    struct {
        Magnitude* magnitude = nullptr;
        T *b = nullptr, *diagonal = nullptr, *product = nullptr;
    } scaled;

private:
    std::size_t elements() const { return std::size_t(n()) * system.columns; }  // of a vector with all its columns

    Arena arena_, of_column_;
    const T* b_;
    const T* diagonal_;
    int sums_ = kKeptSums;
};

}  // namespace spmvgpu
