// The steps of a matrix exponential, for a place of either kind: included where they are compiled, for CPUs and for
// GPUs.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"
#include "solvers/engines/scalar.hpp"
#include "solvers/engines/sweep.hpp"
#include "solvers/subspaces/exponential.hpp"
#include "solvers/system/system.hpp"

namespace spmvgpu {

// `Place` is OnHost or OnGpu. Sizes are sums of absolute values, which do not overflow as squares do.
template <class T, class Place>
class ExponentialOn : public Exponential<T> {
public:
    // Every column has its own.
    struct Scalars {
        std::int32_t stopped = 0, terms = 0;
        double before = 0;  // size of the last term
        template <class Visit>
        void visit_pointers(Visit&&) {}
    };

    ExponentialOn(std::shared_ptr<const LinearMap<T>> A, index_t n, index_t columns,
                  std::shared_ptr<SolverMemory> memory)
        : A_(std::move(A)), n_(n), columns_(columns), device_(memory->device()), memory_(std::move(memory)) {
        lease_ = std::make_unique<SolverMemory::Lease>(*memory_, device_, [&](Arena& arena) {
            term_ = arena.take<T>(std::size_t(n) * columns);
            product_ = arena.take<T>(std::size_t(n) * columns);
            scalars_ = arena.take<Scalars>(columns);
            of_place_ = arena.take<char>(Place::bytes(device_, kMaxSums, sizeof(Wide<T>), {}));
        });
    }

    void apply(const T* b, T* f, const TaylorSteps<T>& by) override {
        Place place(device_, of_place_, kMaxSums, sizeof(Wide<T>), {});
        auto& queue = place.queue;
        for (index_t j = 0; j < columns_; ++j) {
            queue.each(n_, read(b + at(j)), write(f + at(j)), [=] SPMVGPU_DEVICE(T b) { return put(b); });
        }
        int expected = 1;
        for (std::int64_t step = 0; step < by.steps; ++step) {
            for (index_t j = 0; j < columns_; ++j) begin(queue, j, f, by.growth);
            expected = add_series(queue, f, by, expected);
            check_interrupt();
        }
        place.finish();
    }

    // The functions below are public, as functions with lambdas for the GPU must be.

    // The first term of a column: f, times the growth that belongs to the series.
    template <class Queue>
    void begin(Queue& queue, index_t j, T* f, Factor<Wide<T>> growth) {
        queue.compute(scalars_ + j, [=] SPMVGPU_DEVICE(Scalars & s) { s = Scalars{}; });
        queue.sweep(
            scalars_ + j, n_, read(static_cast<const T*>(f + at(j))), write(f + at(j), term_ + at(j)),
            [=] SPMVGPU_DEVICE(const Scalars&, T f) {
                const T grown = growth * f;
                return put(grown, grown).sum(size_of(Wide<T>(grown)));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { s.before = sums.real(0); });
    }

    // The other terms. A GPU is asked for the end where it is expected, after as many terms as in the last series;
    // terms of columns that have ended are idle. Returns how many there were.
    template <class Queue>
    int add_series(Queue& queue, T* f, const TaylorSteps<T>& by, int expected) {
        constexpr int kBetweenLooks = Queue::kIsGpu ? 4 : 1;
        const int first = Queue::kIsGpu ? expected : 1;
        for (int k = 1; k <= by.most_terms; ++k) {
            A_->apply_columns(term_, product_, n_, columns_, queue.stream());
            for (index_t j = 0; j < columns_; ++j) add_term(queue, j, f, by.time / k, by.shift);
            if (k < first || (k - first) % kBetweenLooks != 0) continue;
            std::vector<Scalars> now(columns_);
            queue.download(now.data(), scalars_, columns_ * sizeof(Scalars));
            const auto is_over = [](const Scalars& s) { return s.stopped != 0; };
            if (!std::all_of(now.begin(), now.end(), is_over)) continue;
            const auto fewer = [](const Scalars& a, const Scalars& b) { return a.terms < b.terms; };
            return std::max_element(now.begin(), now.end(), fewer)->terms;
        }
        return by.most_terms;
    }

    // term = factor (A - shift) term,  f = f + term
    template <class Queue>
    void add_term(Queue& queue, index_t j, T* f, double factor, Factor<Wide<T>> shift) {
        T* const term = term_ + at(j);
        queue.sweep(
            scalars_ + j, n_,
            read(static_cast<const T*>(product_ + at(j)), static_cast<const T*>(term),
                 static_cast<const T*>(f + at(j))),
            write(term, f + at(j)),
            [=] SPMVGPU_DEVICE(const Scalars&, T product, T term, T f) {
                const T next = Real<T>(factor) * (product - shift * term), sum = f + next;
                return put(next, sum).sum(size_of(Wide<T>(next)), size_of(Wide<T>(sum)));
            },
            [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 2>& sums) {
                s.stopped = s.before + sums.real(0) <= epsilon<T>() / 2 * sums.real(1);
                s.before = sums.real(0);
                ++s.terms;
            });
    }

private:
    std::size_t at(index_t column) const { return std::size_t(column) * n_; }

    std::shared_ptr<const LinearMap<T>> A_;
    index_t n_, columns_;
    Device device_;
    std::shared_ptr<SolverMemory> memory_;
    std::unique_ptr<SolverMemory::Lease> lease_;
    T *term_ = nullptr, *product_ = nullptr;
    Scalars* scalars_ = nullptr;
    void* of_place_ = nullptr;
};

}  // namespace spmvgpu
