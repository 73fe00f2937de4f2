// The vocabulary of solvers. A sweep is one pass over vectors that does all consecutive steps of a textbook on their
// elements, with the sums, so that no vector is read twice, and a textbook's chain of axpy and dot is one kernel:
//
//     // r = r - alpha q,  rr = r.r
//     queue.sweep(scalars, n, read(r, q), write(r),
//                 [=] SPMVGPU_DEVICE(const S& s, T r, T q) {
//                     r = r - s.alpha * q;
//                     return put(r).sum(square(r));
//                 },
//                 [=] SPMVGPU_DEVICE(S& s, const Sums<T, 1>& sums) { s.rr = sums.real(0); });
//
// The first lambda gets the solver's scalars and an element of each vector that is read; the values that it puts go to
// the vectors that are written, in their order. The second one gets the sums over all elements, once, and does the
// scalar work with them. Scalars are on the device of the vectors, and nothing waits for the host. Once they say that
// the solver has stopped, a sweep does nothing: work that is queued beyond the end changes nothing.
//
// Lambdas capture by value, and must capture pointers and numbers only. Sums are deterministic: the same bits every
// time.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "core/types.hpp"
#include "solvers/engines/scalar.hpp"

// SPMVGPU_DEVICE follows the captures of a solver's lambda, which is compiled for the GPU by nvcc and for the CPU
// otherwise. SPMVGPU_IN_RUN(parameters) begins the template of a function that a run calls on the host or in a kernel.
// nvcc cannot distinguish the two kinds of runs, so its check is off.
#ifdef __CUDACC__
#define SPMVGPU_DEVICE __device__
#define SPMVGPU_IN_RUN(...)                                 \
    _Pragma("nv_exec_check_disable") template <__VA_ARGS__> \
    __host__ __device__ __forceinline__
#else
#define SPMVGPU_DEVICE
#define SPMVGPU_IN_RUN(...) template <__VA_ARGS__>
#endif

namespace spmvgpu {

template <class T, int kCount>
struct Sums {
    Wide<T> value[kCount > 0 ? kCount : 1] = {};

    constexpr Wide<T> operator[](int i) const { return value[i]; }
    constexpr double real(int i) const { return real_of(value[i]); }
    constexpr Sums& operator+=(const Sums& other) {
        for (int i = 0; i < kCount; ++i) value[i] += other.value[i];
        return *this;
    }
};

// The result of a sweep for one element of every vector: the values to write, and the summands.
template <class T, int kWrites, int kSumCount>
struct Element {
    static constexpr int kSums = kSumCount;

    T written[kWrites > 0 ? kWrites : 1];
    Sums<T, kSums> summands;

    template <class... Values>
    constexpr Element<T, kWrites, sizeof...(Values)> sum(Values... values) const {
        static_assert(kSums == 0);
        return with_sums(std::make_integer_sequence<int, kWrites>{}, values...);
    }

private:
    // A loop over the values would keep the CPU's loops over elements from being vectorised.
    template <int... kIndex, class... Values>
    constexpr Element<T, kWrites, sizeof...(Values)> with_sums(std::integer_sequence<int, kIndex...>,
                                                               Values... values) const {
        return {{written[kIndex]...}, {{Wide<T>(values)...}}};
    }
};

template <class T, class... More>
constexpr Element<T, 1 + sizeof...(More), 0> put(T first, More... more) {
    return {{first, more...}, {}};
}

// The result of a sweep that only sums.
template <class T, class... Values>
constexpr Element<T, 0, sizeof...(Values)> sum(Values... values) {
    return {{}, {{Wide<T>(values)...}}};
}

// A vector that may be missing, and that the columns of several right-hand sides of a system share: a null pointer is
// read as ones, such as the diagonal of a missing preconditioner.
template <class T>
struct Maybe {
    const T* from;
};
template <class T>
constexpr Maybe<T> maybe(const T* from) {
    return {from};
}

// Vectors that a sweep reads; bit k of kMissing is set if the k-th may be missing.
template <class T, int kCount, unsigned kMissing>
struct Reads {
    static constexpr int kSize = kCount;
    const T* from[kCount];

    template <int kVector>
    constexpr T at(index_t i) const {
        if constexpr ((kMissing >> kVector & 1) != 0) {
            return from[kVector] != nullptr ? from[kVector][i] : T(1);
        } else {
            return from[kVector][i];
        }
    }

    // The vectors of a column that begins this many elements further on, and those that columns of its system share.
    constexpr Reads column(std::ptrdiff_t away, std::ptrdiff_t shared_away = 0) const {
        Reads moved = *this;
        for (int k = 0; k < kCount; ++k) {
            if ((kMissing >> k & 1) == 0) {
                moved.from[k] += away;
            } else if (moved.from[k] != nullptr) {
                moved.from[k] += shared_away;
            }
        }
        return moved;
    }
};

namespace detail {

template <class T>
constexpr const T* pointer(const T* vector) {
    return vector;
}
template <class T>
constexpr const T* pointer(Maybe<T> vector) {
    return vector.from;
}

template <class... Operands>
constexpr unsigned missing_mask() {
    unsigned mask = 0, bit = 1;
    ((mask |= !std::is_pointer_v<Operands> * bit, bit *= 2), ...);
    return mask;
}

}  // namespace detail

template <class T, class... More>
constexpr Reads<std::remove_const_t<T>, 1 + sizeof...(More), detail::missing_mask<T*, More...>()> read(T* first,
                                                                                                       More... more) {
    return {{first, detail::pointer(more)...}};
}

template <class T, int kCount>
struct Writes {
    static constexpr int kSize = kCount;
    T* to[kCount > 0 ? kCount : 1];

    constexpr Writes column(std::ptrdiff_t away) const {
        Writes moved = *this;
        for (int k = 0; k < kCount; ++k) moved.to[k] += away;
        return moved;
    }
};

template <class T, class... More>
constexpr Writes<T, 1 + sizeof...(More)> write(T* first, More*... more) {
    return {{first, more...}};
}

struct NoWork {
    template <class... Ignored>
    constexpr void operator()(Ignored&&...) const {}
};

// Most sums of a sweep.
inline constexpr int kMaxSums = 3;

// Scalar work of a sweep that may wait until the sums of a later one are used, so that vectors in pieces wait for each
// other once for both. Other engines do it at once.
template <class Work>
struct Postponed {
    Work work;

    template <class S, class Given>
    constexpr void operator()(S& scalars, const Given& sums) const {
        work(scalars, sums);
    }
};
template <class Work>
Postponed(Work) -> Postponed<Work>;

// Scalar work before which postponed work is done, if there is any.
template <class Before, class Work>
struct AfterPostponed {
    Before before;
    Work work;

    template <class S, class Given>
    constexpr void operator()(S& scalars, const Given& sums) const {
        work(scalars, sums);
    }
};
template <class Before, class Work>
AfterPostponed(Before, Work) -> AfterPostponed<Before, Work>;

// A piece has memory for the sums of a sweep, and behind them for sums whose work is postponed.
inline constexpr int kKeptSums = 2 * kMaxSums;

// The scalar work of a piece: its sums are kept in memory, all kMaxSums of them, and later added to the sums of the
// other pieces.
template <class W, bool kArePostponed = false>
struct KeepSums {
    W* to;

    template <class S, class T, int kSums>
    constexpr void operator()(S& scalars, const Sums<T, kSums>& sums) const {
        for (int k = 0; k < kMaxSums; ++k) to[k] = k < kSums ? sums.value[k] : W(0);
        if constexpr (kArePostponed) scalars.has_postponed = true;
    }
};

// Sums in memory, for scalar work: they convert to any number of sums.
template <class T>
struct KeptSums {
    const Wide<T>* from;

    template <int kSums>
    constexpr operator Sums<T, kSums>() const {
        Sums<T, kSums> sums;
        for (int k = 0; k < kSums; ++k) sums.value[k] = from[k];
        return sums;
    }
};

// AfterPostponed with sums in memory, behind which are the postponed ones.
template <class T, class Then>
struct UsePostponed {
    Then then;

    template <class S>
    constexpr void operator()(S& scalars, const KeptSums<T>& sums) const {
        if (scalars.has_postponed) then.before(scalars, KeptSums<T>{sums.from + kMaxSums});
        scalars.has_postponed = false;
        then.work(scalars, sums);
    }
};

// Scalars and step of a sweep without scalars, which is never idle.
struct NoScalars {
    static constexpr bool stopped = false;
};
template <class Step>
struct WithoutScalars {
    Step step;

    template <class... Values>
    constexpr auto operator()(const NoScalars&, Values... values) const {
        return step(values...);
    }
};

// Vectors of equal length that lie one after the other, such as a Krylov basis.
template <class T>
struct Basis {
    T* data;
    std::size_t stride;

    constexpr T* operator[](int k) const { return data + k * stride; }
    constexpr Basis column(std::ptrdiff_t away) const { return {data + away, stride}; }
};

}  // namespace spmvgpu
