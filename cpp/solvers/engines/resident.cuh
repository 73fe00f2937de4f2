// The iterations of a solver within one cooperative kernel; see resident.hpp.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "matrix/matrix.hpp"
#include "solvers/engines/context.hpp"
#include "solvers/engines/cooperative.cuh"
#include "solvers/engines/cuda_queue.cuh"
#include "solvers/engines/grid_sums.cuh"
#include "solvers/engines/resident.hpp"

namespace spmvgpu::gpu {

// The types of rows of some formats, without repetitions.
template <class... Rows>
struct RowsTypes {};
template <class... Rows, class Format>
constexpr auto operator+(RowsTypes<Rows...> known, std::type_identity<Format>) {
    if constexpr (requires(const Format& format) { rows_of(format); }) {
        using Next = decltype(rows_of(std::declval<const Format&>()));
        return std::conditional_t<(std::is_same_v<Rows, Next> || ...), RowsTypes<Rows...>, RowsTypes<Rows..., Next>>();
    } else {
        return known;
    }
}

// The rows of a matrix whose format is known at run time. A kernel for each format would be a dozen for each solver,
// and a kernel that keeps entries in registers needs the format only in the rounds beyond those.
template <class Types>
class TaggedRows;
template <class... Rows>
class TaggedRows<RowsTypes<Rows...>> {
public:
    template <class Own>
    TaggedRows(const Own& rows) : type_(kPlace<Own>) {
        static_assert(std::is_trivially_copyable_v<Own>);
        if constexpr (requires { rows.permutation; }) are_permuted_ = rows.permutation != nullptr;
        std::memcpy(memory_, &rows, sizeof rows);
    }

    // True if they are stored in another order than the matrix's.
    __host__ __device__ bool are_permuted() const { return are_permuted_; }

    template <class Call>
    __device__ __forceinline__ void visit(Call&& call) const {
        (void)((type_ == kPlace<Rows> && (call(*reinterpret_cast<const Rows*>(memory_)), true)) || ...);
    }

private:
    template <class Own>
    static constexpr int find() {
        int place = 0;
        (void)((std::is_same_v<Rows, Own> || (++place, false)) || ...);
        return place;
    }
    template <class Own>
    static constexpr int kPlace = find<Own>();

    int type_;
    bool are_permuted_ = false;
    alignas(Rows...) unsigned char memory_[std::max({sizeof(Rows)...})];
};

template <class... Formats>
constexpr auto rows_types(std::variant<Formats...>*) {
    return (RowsTypes<>() + ... + std::type_identity<Formats>());
}
template <class T>
using AnyRows = TaggedRows<decltype(rows_types(static_cast<AnyFormat<T>*>(nullptr)))>;

template <class T>
struct ResidentSystem {
    static constexpr std::size_t partial_bytes() {
        return 256 + GridSums<T, ResidentTuning::kBlockSize, ResidentTuning::kMaxBlocks>::kBytes;
    }

    index_t n;
    ResidentShape shape;
    AnyRows<T> rows;
    const T* diagonal;  // M as a diagonal; null: no M
    unsigned* arrivals;
    Wide<T>* partials;
};

// The run of iterations in the kernel. Every block has a range of the vectors' elements, one a thread, a range of the
// matrix's stored rows, and a copy of the scalars in shared memory. All blocks add up the same partial sums in the same
// order and do the same scalar work on them, so that their copies are equal, and all take the same branches.
//
// The thread that owns an element reads and writes it, without a wait. A barrier stands
//     in every sweep that sums, and makes what was written before it visible;
//     before a product, if the vector it reads may have been written since the last barrier;
//     before a vector is written that other blocks may still be reading for the last product.
template <class T>
class ResidentRun : public RunSteps<ResidentRun<T>, T> {
    using Tuning = ResidentTuning;
    using W = Wide<T>;

public:
    __device__ __forceinline__ explicit ResidentRun(const ResidentSystem<T>& system)
        : system_(system), sums_(system.arrivals, system.partials) {
        const int rows_here = system.shape.rows_per_block;
        const index_t first = static_cast<index_t>(blockIdx.x) * rows_here;
        const int group = static_cast<int>(threadIdx.x) / system.shape.lanes;  // the block has rows_here of them
        lane_ = threadIdx.x % system.shape.lanes;
        element_ = static_cast<int>(threadIdx.x) < rows_here ? first + static_cast<index_t>(threadIdx.x) : system.n;
#pragma unroll
        for (int i = 0; i < Tuning::kRowEntries; ++i) {
            cols_[i] = -1;
            factors_[i] = T(0);
        }
        if (first + group >= system.n) return;
        system.rows.visit([&](const auto& rows) {
            row_ = rows.row(first + group);
            if (lane_ == 0) stores_to_ = rows.number(first + group);
            load(rows, lane_, cols_, factors_);
        });
    }

    __device__ bool has_preconditioner() const { return system_.diagonal != nullptr; }

    __device__ __forceinline__ void multiply(const T* x, T* y) {
        const bool permuted = system_.rows.are_permuted();  // then rows do not correspond to the block's elements
        if (unseen_writes_ || permuted || y == being_read_) wait_for_all();
        T sum = products(x, cols_, factors_);
        constexpr int kRowEntries = Tuning::kRowEntries;
        if (row_.count > kRowEntries * system_.shape.lanes) {
            system_.rows.visit([&](const auto& rows) {
                for (unsigned k = lane_ + kRowEntries * system_.shape.lanes; k < row_.count;
                     k += kRowEntries * system_.shape.lanes) {
                    index_t cols[kRowEntries];
                    T factors[kRowEntries];
#pragma unroll
                    for (int i = 0; i < kRowEntries; ++i) {
                        cols[i] = -1;
                        factors[i] = T(0);
                    }
                    load(rows, k, cols, factors);
                    sum += products(x, cols, factors);
                }
            });
        }
        sum = sum_lanes(sum, system_.shape.lanes);
        if (stores_to_ >= 0) y[stores_to_] = sum;
        if (permuted) return wait_for_all();
        __syncthreads();
        unseen_writes_ = true;
        being_read_ = x;
    }

    template <class S>
    __device__ __forceinline__ const T* precondition(S* s, const T* from, T* to) {
        if (system_.diagonal == nullptr) return from;
        sweep(s, read(from, system_.diagonal), write(to), TimesDiagonal<T>{});
        return to;
    }

    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then = {}) {
        sweep(s, reads, writes, step, then, std::make_integer_sequence<int, kReads>{});
    }

private:
    // Scalars change in a sweep that only sums, between two __syncthreads.
    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then, int... kIndex>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then,
                                          std::integer_sequence<int, kIndex...>) {
        using Result = decltype(step(*s, reads.template at<kIndex>(0)...));
        constexpr int kSums = Result::kSums;
        if (s->stopped) return;
        bool is_read = false;
#pragma unroll
        for (int w = 0; w < kWrites; ++w) is_read = is_read || writes.to[w] == being_read_;
        if (is_read) wait_for_all();
        Sums<T, kSums> sums;
        if (element_ < system_.n) {
            const Result result = step(*s, reads.template at<kIndex>(element_)...);
#pragma unroll
            for (int w = 0; w < kWrites; ++w) writes.to[w][element_] = result.written[w];
            sums = result.summands;
        }
        if constexpr (kWrites > 0) unseen_writes_ = true;
        if constexpr (kSums > 0) {
            sums_.add_up(sums, [&](const Sums<T, kSums>& of_all) { then(*s, of_all); });
            all_have_come();
        }
    }

    __device__ __forceinline__ void wait_for_all() {
        sums_.wait_for_all();
        all_have_come();
    }
    __device__ __forceinline__ void all_have_come() {
        unseen_writes_ = false;
        being_read_ = nullptr;
    }

    // The entries k, k + lanes, ... of the thread's row, as far as they exist.
    template <class Rows>
    __device__ __forceinline__ void load(const Rows& rows, unsigned k, index_t (&cols)[Tuning::kRowEntries],
                                         T (&factors)[Tuning::kRowEntries]) const {
#pragma unroll
        for (int i = 0; i < Tuning::kRowEntries; ++i) {
            const unsigned at = k + i * system_.shape.lanes;
            if (at < row_.count) rows.load(row_, at, cols[i], factors[i]);
        }
    }

    static __device__ __forceinline__ T products(const T* x, const index_t (&cols)[Tuning::kRowEntries],
                                                 const T (&factors)[Tuning::kRowEntries]) {
        T gathered[Tuning::kRowEntries], sum = 0;
#pragma unroll
        for (int i = 0; i < Tuning::kRowEntries; ++i) gathered[i] = cols[i] >= 0 ? gpu::load(x + cols[i]) : T(0);
#pragma unroll
        for (int i = 0; i < Tuning::kRowEntries; ++i) {
            if (cols[i] >= 0) sum += factors[i] * gathered[i];
        }
        return sum;
    }

    const ResidentSystem<T>& system_;
    GridSums<T, Tuning::kBlockSize, Tuning::kMaxBlocks> sums_;
    index_t element_;         // the thread's element of the vectors, or n
    unsigned lane_;           // its position among the lanes of its row
    Row row_;                 // without entries if the thread has none
    index_t stores_to_ = -1;  // element that receives the lanes' sum; -1 in lanes other than the first
    index_t cols_[Tuning::kRowEntries];
    T factors_[Tuning::kRowEntries];
    bool unseen_writes_ = false;     // writes since the last barrier
    const T* being_read_ = nullptr;  // vector that other blocks read for a product since then
};

// Does iterations first, first + 1, ... until the scalars end the solve, but no more than `count`.
template <class T, class S, class Iteration>
__global__ void __launch_bounds__(ResidentTuning::kBlockSize)
    iterate_resident_grid(const __grid_constant__ ResidentSystem<T> system, S* scalars,
                          const __grid_constant__ Iteration iteration, std::int64_t first, std::int64_t count) {
    static_assert(SolverRun<ResidentRun<T>, T, S>);
    wait_for_kernel_before();
    S* const s = copy_scalars(*scalars);
    ResidentRun<T> run(system);
    std::int64_t k = first;
    for (; k < first + count && s->status == Status::kRunning; ++k) iteration(run, s, k);
    if (k > first) store_scalars(scalars, *s);
}

// None if the system is not small, or has no rows or no diagonal that the kernel could read.
template <class T>
std::optional<ResidentSystem<T>> resident_system(const System<T>& system, const Partials& partials) {
    if (system.has_operator()) return std::nullopt;
    const Matrix<T>* const matrix = system.A->matrix();
    if (matrix == nullptr) return std::nullopt;
    return std::visit(
        [&]<class Format>(const Format& format) -> std::optional<ResidentSystem<T>> {
            if constexpr (requires { rows_of(format); }) {
                index_t longest_row = matrix->longest_row();
                if constexpr (Format::kTraits.reads_whole_diagonals) longest_row = format.diagonals();
                const auto shape = resident_shape(format.rows, format.nnz, longest_row);
                if (!shape) return std::nullopt;
                return ResidentSystem<T>{system.n,
                                         *shape,
                                         rows_of(format),
                                         system.diagonal(),
                                         partials.arrivals + 1,
                                         reinterpret_cast<Wide<T>*>(partials.sums)};
            } else {
                return std::nullopt;
            }
        },
        matrix->storage());
}

// Returns false if the system cannot be iterated within kernels. This depends on the system alone, so that results do
// not depend on how often the caller looks at the solve.
template <class T, class S, class Iteration>
bool iterate_resident(Context<T, CudaQueue>& solve, S* s, Iteration iteration) {
    if (solve.limits.scaled) return false;  // the kernel's own products ignore scales
    const auto system = resident_system(solve.work.system, solve.queue.partials());
    if (!system) return false;
    const auto kernel = iterate_resident_grid<T, S, Iteration>;
    if (!can_cooperate(kernel, system->shape.blocks, ResidentTuning::kBlockSize, solve.work.system.device.ordinal)) {
        return false;
    }
    std::int64_t first = 0, count = solve.iterations_per_look();
    do {
        launch_cooperative(kernel, system->shape.blocks, ResidentTuning::kBlockSize, solve.queue.stream(), *system, s,
                           iteration, first, count);
        first += count;
    } while (!solve.is_over(s));
    return solve.report.resident = true;
}

}  // namespace spmvgpu::gpu
