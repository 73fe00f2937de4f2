// The steps of a Krylov basis, for a place of either kind: included where they are compiled, for CPUs and for GPUs.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/interrupt.hpp"
#include "solvers/engines/scales.hpp"
#include "solvers/subspaces/krylov_basis.hpp"

namespace spmvgpu {

// `Place` is OnHost, OnGpu or OnGpuOfRank. All have rotate(place, n, from, vectors, q, count, to): `count` combinations
// of vectors of a basis, which may overwrite the first of them.
template <class T, class Place>
class KrylovBasisOn : public KrylovBasis<T> {
public:
    struct Scalars {
        std::int32_t stopped = 0;  // never set
        double along = 0, norm = 0, scale = 0;
        template <class Visit>
        void visit_pointers(Visit&&) {}

        SPMVGPU_SCALAR void set_norm(double squared) {
            constexpr double kLeastNorm = 1e-30;  // 1 / norm must be finite in any type
            norm = squared < 0 ? -root(-squared) : root(squared);
            if (norm <= kLeastNorm && norm > 0) norm = 0;
            scale = norm > 0 ? 1 / norm : 0;
        }
    };

    KrylovBasisOn(index_t n, int length, std::shared_ptr<SolverMemory> memory, RankSums ranks,
                  std::shared_ptr<const LinearMap<T>> inner)
        : n_(n),
          sums_(std::max(length, kMaxSums)),
          device_(memory->device()),
          memory_(std::move(memory)),
          ranks_(std::move(ranks)),
          inner_(std::move(inner)) {
        lease_ = std::make_unique<SolverMemory::Lease>(*memory_, device_, [&](Arena& arena) {
            const std::size_t stride = aligned(n * sizeof(T)) / sizeof(T);
            v_ = {arena.take<T>(stride * length), stride};
            if (inner_) dual_ = arena.take<T>(n);
            first_ = arena.take<Wide<T>>(length);
            again_ = arena.take<Wide<T>>(length);
            factors_ = arena.take<Wide<T>>(std::size_t(length) * length);
            found_ = arena.take<double>(2 * (std::size_t(length) + 1));
            scalars_ = arena.take<Scalars>(1);
            magnitude_ = arena.take<Magnitude>(1);
            of_place_ = arena.take<char>(Place::bytes(device_, sums_, sizeof(Wide<T>), ranks_));
        });
        Place place = here();
        place.queue.put_scalars(scalars_, Scalars{});
    }

    std::vector<Wide<T>> put(const T* x, int number) override {
        Place place = here();
        const int exponent = exponent_of(place.queue, magnitude_, n_, x).value_or(0);
        scale_by_power(place.queue, n_, x, v_[number], -exponent);
        orthonormalise(place.queue, number);
        std::vector<Wide<T>> coefficients(number), more(number);
        double found[2];
        place.queue.download(coefficients.data(), first_, number * sizeof(Wide<T>));
        place.queue.download(more.data(), again_, number * sizeof(Wide<T>));
        place.queue.download(found, found_ + 2 * number, sizeof(found));
        const double scale = std::ldexp(1.0, exponent);
        for (int k = 0; k < number; ++k) coefficients[k] = scale * (coefficients[k] + more[k]);
        coefficients.push_back(Wide<T>(scale * found[1]));
        return coefficients;
    }

    std::vector<Wide<T>> products(const LinearMap<T>& map, const T* x, const T* y) override {
        constexpr int kEach = 3;
        Place place = here();
        const T* const given[] = {x, y};
        for (int j = 0; j < 2; ++j) scale_by_power(place.queue, n_, given[j], v_[j], 0);
        int exponent = 0;
        for (int j = 0; j < 2; ++j) {
            T* const w = v_[2];
            map.apply(v_[j], w, place.queue.stream());
            if (j == 0) exponent = exponent_of(place.queue, magnitude_, n_, static_cast<const T*>(w)).value_or(0);
            scale_by_power(place.queue, n_, static_cast<const T*>(w), w, -exponent);
            place.queue.dots(scalars_, n_, v_, kEach, static_cast<const T*>(w), factors_ + kEach * j, NoWork{});
        }
        std::vector<Wide<T>> found(2 * kEach);
        place.queue.download(found.data(), factors_, found.size() * sizeof(Wide<T>));
        return found;
    }

    std::optional<int> exponent(const LinearMap<T>& map) override {
        Place place = here();
        map.apply(v_[0], v_[1], place.queue.stream());
        auto found = exponent_of(place.queue, magnitude_, n_, static_cast<const T*>(v_[1]));
        // Without a matrix of the inner product, |v_0| is 1.
        if (found && inner_)
            *found -= exponent_of(place.queue, magnitude_, n_, static_cast<const T*>(v_[0])).value_or(0);
        return found;
    }

    std::vector<double> extend(const LinearMap<T>& map, int first, int last, int exponent) override {
        Place place = here();
        for (int j = first; j < last; ++j) {
            T* const w = v_[j + 1];
            map.apply(v_[j], w, place.queue.stream());
            if (exponent != 0) scale_by_power(place.queue, n_, static_cast<const T*>(w), w, exponent);
            // Except for the first, which may follow a restart, only rounding errors lie along other vectors than the
            // neighbours, so this is as good as the first time.
            j == first ? take_out(place.queue, j + 1) : take_out_neighbours(place.queue, j);
            finish(place.queue, j + 1);
            check_interrupt();
        }
        std::vector<double> found(2 * (last - first));
        place.queue.download(found.data(), found_ + 2 * (first + 1), found.size() * sizeof(double));
        return found;
    }

    void restart(const Wide<T>* q, int from, int to) override {
        Place place = here();
        rotate(place, n_, v_, from, put_factors(q, from * to), to, v_);
        place.queue.each(n_, read(static_cast<const T*>(v_[from])), write(v_[to]),
                         [=] SPMVGPU_DEVICE(T v) { return spmvgpu::put(v); });
        place.finish();
    }

    void combine(const Wide<T>* q, int from, int count, T* to) override {
        Place place = here();
        rotate(place, n_, v_, from, put_factors(q, from * count), count, Basis<T>{to, std::size_t(n_)});
        place.finish();
    }

    void multiply(const LinearMap<T>& map, int number, T* to) override {
        Place place = here();
        map.apply(v_[number], to, place.queue.stream());
        place.finish();
    }

    // The functions below are public, as functions with lambdas for the GPU must be.

    // The vector whose plain products are inner products with w: w times the matrix of the inner product.
    template <class Queue>
    const T* dual(Queue& queue, const T* w) {
        if (!inner_) return w;
        inner_->apply(w, dual_, queue.stream());
        return dual_;
    }

    // v_count orthonormalised against the earlier vectors, twice, because the remainders of the first time are small
    // enough only after the second.
    template <class Queue>
    void orthonormalise(Queue& queue, int count) {
        take_out(queue, count);
        finish(queue, count);
    }

    // v_count less its projections on the earlier vectors.
    template <class Queue>
    void take_out(Queue& queue, int count) {
        queue.dots(scalars_, n_, v_, count, dual(queue, v_[count]), first_, NoWork{});
        queue.combine(
            scalars_, n_, v_, [=] SPMVGPU_DEVICE(const Scalars&) { return count; }, first_, -1, v_[count], NoWork{});
    }

    // v_j+1 = A v_j less its projections on v_j and on v_j-1, whose norm is known.
    template <class Queue>
    void take_out_neighbours(Queue& queue, int j) {
        T* const w = v_[j + 1];
        const Wide<T>* const along = first_ + j;
        const double* const norm = found_ + 2 * j + 1;
        queue.dots(scalars_, n_, Basis<T>{v_[j], v_.stride}, 1, dual(queue, w), first_ + j,
                   [=] SPMVGPU_DEVICE(Scalars & s) {
                       s.along = real_of(*along);
                       s.norm = *norm;
                   });
        queue.sweep(scalars_, n_,
                    read(static_cast<const T*>(w), static_cast<const T*>(v_[j]), static_cast<const T*>(v_[j - 1])),
                    write(w), [=] SPMVGPU_DEVICE(const Scalars& s, T w, T v, T before) {
                        return spmvgpu::put(w - Real<T>(s.along) * v - Real<T>(s.norm) * before);
                    });
    }

    // v_j+1 less the remainders of its projections, divided by its norm. found_[2 * count] is its product with the one
    // before it, as it was, followed by the norm.
    template <class Queue>
    void finish(Queue& queue, int count) {
        T* const w = v_[count];
        Wide<T>*const first = first_, *const again = again_;
        double* const found = found_ + 2 * count;
        const auto all = [=] SPMVGPU_DEVICE(const Scalars&) { return count; };
        const auto take_norm = [=] SPMVGPU_DEVICE(Scalars & s, double squared) {
            s.set_norm(squared);
            found[0] = count > 0 ? real_of(first[count - 1] + again[count - 1]) : 0;
            found[1] = s.norm;
        };
        queue.dots(scalars_, n_, v_, count, dual(queue, w), again, NoWork{});
        if (inner_) {
            queue.combine(scalars_, n_, v_, all, again, -1, w, NoWork{});
            queue.dots(scalars_, n_, Basis<T>{w, v_.stride}, 1, dual(queue, w), again + count,
                       [=] SPMVGPU_DEVICE(Scalars & s) { take_norm(s, real_of(again[count])); });
        } else {
            queue.combine(scalars_, n_, v_, all, again, -1, w,
                          [=] SPMVGPU_DEVICE(Scalars & s, const Sums<T, 1>& sums) { take_norm(s, sums.real(0)); });
        }
        queue.sweep(scalars_, n_, read(static_cast<const T*>(w)), write(w),
                    [=] SPMVGPU_DEVICE(const Scalars& s, T w) { return spmvgpu::put(Real<T>(s.scale) * w); });
    }

private:
    Place here() const { return Place(device_, of_place_, sums_, sizeof(Wide<T>), ranks_); }

    const Wide<T>* put_factors(const Wide<T>* q, std::size_t count) {
        copy_bytes(factors_, device_, q, {}, count * sizeof(Wide<T>));
        return factors_;
    }

    index_t n_;
    int sums_;  // at once
    Device device_;
    std::shared_ptr<SolverMemory> memory_;
    RankSums ranks_;
    std::shared_ptr<const LinearMap<T>> inner_;
    std::unique_ptr<SolverMemory::Lease> lease_;
    Basis<T> v_{};
    T* dual_ = nullptr;
    Wide<T>*first_ = nullptr, *again_ = nullptr, *factors_ = nullptr;
    double* found_ = nullptr;
    Scalars* scalars_ = nullptr;
    Magnitude* magnitude_ = nullptr;
    void* of_place_ = nullptr;
};

}  // namespace spmvgpu
