// Sweeps on the CPU, done at once.
#pragma once

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/parallel.hpp"
#include "solvers/engines/engine.hpp"
#include "solvers/engines/sweep.hpp"

namespace spmvgpu {

// The loops are static functions and no members, because GCC 13 fails on clones of a function that several files may
// share.

inline constexpr std::int64_t kHostTile = 512;  // elements that stay in the nearest cache while vectors are added

// Vectors that a sweep reads, one of which is missing.
template <class T, int kCount, int kOnes>
struct ReadsWithOnes {
    static constexpr int kSize = kCount;
    const T* from[kCount];

    template <int kVector>
    constexpr T at(index_t i) const {
        if constexpr (kVector == kOnes) return T(1);
        return from[kVector][i];
    }
};

// Calls a function with the vectors that a sweep reads, of a type that says which one is missing: a test for each
// element would be a masked load from a null pointer, which takes as long as dozens of others.
template <class T, int kReads, unsigned kMissing, class Call>
auto with_known(const Reads<T, kReads, kMissing>& reads, const Call& call) {
    if constexpr (kMissing == 0) {
        return call(reads);
    } else {
        static_assert(std::has_single_bit(kMissing));
        constexpr int kVector = std::countr_zero(kMissing);
        Reads<T, kReads, 0> all;
        std::copy_n(reads.from, kReads, all.from);
        if (reads.from[kVector] != nullptr) return call(all);
        ReadsWithOnes<T, kReads, kVector> others;
        std::copy_n(reads.from, kReads, others.from);
        return call(others);
    }
}

template <class S, class R, class Step, int... kIndex>
constexpr auto of_element(const Step& step, const S& scalars, const R& reads, index_t i,
                          std::integer_sequence<int, kIndex...>) {
    return step(scalars, reads.template at<kIndex>(i)...);
}

template <class Result, class T, int kWrites, int... kIndex>
constexpr void write_element(const Result& result, const Writes<T, kWrites>& writes, [[maybe_unused]] index_t i,
                             std::integer_sequence<int, kIndex...>) {
    ((writes.to[kIndex][i] = result.written[kIndex]), ...);
}

// Scalars are passed by value, so that the compiler sees that writes of elements do not change them.
template <int kSums, class S, class R, class T, int kWrites, class Step>
SPMVGPU_SIMD_CLONES static Sums<T, kSums> sweep_part(std::int64_t begin, std::int64_t end, const S now, const R reads,
                                                     const Writes<T, kWrites> writes, const Step step) {
    static_assert(kSums <= kMaxSums);
    constexpr int kReads = R::kSize;
    // The loops add to the sums themselves, because a lambda that does would keep them in memory. They are vectorised
    // only without loops inside.
    const auto summands_of = [&](index_t i) {
        const auto result = of_element(step, now, reads, i, std::make_integer_sequence<int, kReads>{});
        write_element(result, writes, i, std::make_integer_sequence<int, kWrites>{});
        return result.summands;
    };
    Wide<T> sum0{}, sum1{}, sum2{};
    const auto first = static_cast<index_t>(begin), last = static_cast<index_t>(end);
    if constexpr (std::is_floating_point_v<T>) {
#pragma omp simd reduction(+ : sum0, sum1, sum2)
        for (index_t i = first; i < last; ++i) {
            const auto summands = summands_of(i);
            if constexpr (kSums > 0) sum0 += summands[0];
            if constexpr (kSums > 1) sum1 += summands[1];
            if constexpr (kSums > 2) sum2 += summands[2];
        }
    } else {
        for (index_t i = first; i < last; ++i) {
            const auto summands = summands_of(i);
            if constexpr (kSums > 0) sum0 += summands[0];
            if constexpr (kSums > 1) sum1 += summands[1];
            if constexpr (kSums > 2) sum2 += summands[2];
        }
    }
    Sums<T, kSums> total;
    if constexpr (kSums > 0) total.value[0] = sum0;
    if constexpr (kSums > 1) total.value[1] = sum1;
    if constexpr (kSums > 2) total.value[2] = sum2;
    return total;
}

template <class T>
SPMVGPU_SIMD_CLONES static Wide<T> dot_part(const T* a, const T* b, std::int64_t begin, std::int64_t end) {
    Wide<T> sum{};
    if constexpr (std::is_floating_point_v<T>) {
#pragma omp simd reduction(+ : sum)
        for (std::int64_t i = begin; i < end; ++i) sum += dot(a[i], b[i]);
    } else {
        for (std::int64_t i = begin; i < end; ++i) sum += dot(a[i], b[i]);
    }
    return sum;
}

template <class T>
SPMVGPU_SIMD_CLONES static void combine_part(Basis<T> basis, int vectors, const Wide<T>* factors, double sign,
                                             T* target, std::int64_t begin, std::int64_t end) {
    for (int k = 0; k < vectors; ++k) {
        const T factor = T(sign * factors[k]);
        const T* const v = basis[k];
#pragma omp simd
        for (std::int64_t i = begin; i < end; ++i) target[i] += factor * v[i];
    }
}

class HostQueue {
public:
    Stream stream() const { return nullptr; }
    static constexpr bool kIsGpu = false;
    static constexpr bool kIsInPieces = false;
    using Shortcuts = NoShortcuts;

    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
               Then then = {}) {
        if (scalars->stopped) return;
        using Result = decltype(of_element(step, *scalars, reads, 0, std::make_integer_sequence<int, kReads>{}));
        constexpr int kSums = Result::kSums;
        const S now = *scalars;
        then(*scalars, with_known(reads, [&](const auto& known) {
            return parallel_sum<Sums<T, kSums>>(n, n, [&](std::int64_t begin, std::int64_t end) {
                return sweep_part<kSums>(begin, end, now, known, writes, step);
            });
        }));
    }

    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        NoScalars none;
        sweep(&none, n, reads, writes, WithoutScalars<Step>{step});
    }

    template <class S, class T, class Then>
    void dots(S* scalars, index_t n, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then) {
        if (scalars->stopped) return;
        constexpr int kAtOnce = 4;
        for (int first = 0; first < count; first += kAtOnce) {
            const int here = std::min(kAtOnce, count - first);
            const auto sums = parallel_sum<Sums<T, kAtOnce>>(n, 2 * n, [&](std::int64_t begin, std::int64_t end) {
                Sums<T, kAtOnce> part;
                for (int k = 0; k < here; ++k) part.value[k] = dot_part(basis[first + k], w, begin, end);
                return part;
            });
            for (int k = 0; k < here; ++k) results[first + k] = sums[k];
        }
        then(*scalars);
    }

    template <class S, class T, class Count, class Then>
    void combine(S* scalars, index_t n, Basis<T> basis, Count count, const Wide<T>* factors, double sign, T* target,
                 Then then) {
        if (scalars->stopped) return;
        const int vectors = count(*scalars);
        const auto sums =
            parallel_sum<Sums<T, 1>>(n, std::int64_t(n) * (1 + vectors / 2), [&](std::int64_t begin, std::int64_t end) {
                Sums<T, 1> part;
                for (std::int64_t i = begin; i < end; i += kHostTile) {
                    const std::int64_t last = std::min(end, i + kHostTile);
                    combine_part(basis, vectors, factors, sign, target, i, last);
                    part.value[0] += dot_part(target, target, i, last);
                }
                return part;
            });
        then(*scalars, sums);
    }

    template <class S, class Work>
    void compute(S* scalars, Work work) {
        work(*scalars);
    }

    template <class S>
    bool knows_idle(const S* scalars) const {
        return scalars->stopped != 0;
    }

    void zero(void*, std::size_t) {}  // needed only by memory checkers of GPUs

    template <class S>
    void put_scalars(S* to, const S& value) {
        *to = value;
    }

    template <class S>
    S read_scalars(const S* from) {
        return *from;
    }

    int columns() const { return 1; }
    template <class S>
    std::vector<S> read_columns(const S* from) {
        return {*from};
    }
    template <class S>
    void put_columns(S* to, const std::vector<S>& values) {
        *to = values[0];
    }

    void download(void* to, const void* from, std::size_t bytes) { std::memcpy(to, from, bytes); }

    template <class Iterate, class Look>
    void repeat(const Pace&, Iterate&& iterate, Look&& look) {
        std::int64_t k = 0;
        do iterate(k++);
        while (look());
    }
};

static_assert(Engine<HostQueue>);

// Sweeps without scalars over all columns of vectors.
class HostColumns {
public:
    explicit HostColumns(int columns) : columns_(columns) {}

    Stream stream() const { return nullptr; }
    int columns() const { return columns_; }

    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        for (std::ptrdiff_t j = 0; j < columns_; ++j) queue_.each(n, reads.column(j * n), writes.column(j * n), step);
    }

private:
    int columns_;
    HostQueue queue_;
};

}  // namespace spmvgpu
