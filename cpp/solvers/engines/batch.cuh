// The iterations of a batch of small systems within one kernel, which has a block for each of them.
//
// An iteration of many small systems that are swept over together reads all matrices from the device's memory. A block
// stays with its system, keeps its matrix in shared memory if that fits, waits for no other, and makes room for the
// next system when its own is solved. Of systems that do not fit, those that run at the same time stay in the L2.
// Blocks share a multiprocessor, so that one computes while the scalars of another do, which one thread works on.
#pragma once

#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "solvers/engines/batch.hpp"
#include "solvers/engines/context.hpp"
#include "solvers/engines/cuda_columns.cuh"
#include "solvers/engines/resident.cuh"

namespace spmvgpu::gpu {

template <class T>
struct BatchOfSystems {
    index_t n;
    BatchShape shape;
    AnyRows<T> rows;
    const T* diagonal;  // M as a diagonal; null: no M
    ColumnStrides places;
};

// The run of iterations of one system. The thread that owns an element of the vectors reads and writes it without a
// wait; barriers of the block stand around products and in sums.
template <class T>
class BatchRun : public RunSteps<BatchRun<T>, T> {
    using Tuning = BatchTuning;
    using Column = Tuning::Column;
    using W = Wide<T>;

public:
    __device__ __forceinline__ BatchRun(const BatchOfSystems<T>& batch, unsigned column)
        : batch_(batch),
          away_(std::int64_t(column) * batch.n),
          first_row_(batch.places.system_of(column) * batch.n),
          lane_(threadIdx.x % batch.shape.lanes) {
        if (batch.shape.kept > 0) keep();
    }

    __device__ bool has_preconditioner() const { return batch_.diagonal != nullptr; }

    __device__ __forceinline__ void multiply(const T* x, T* y) {
        __syncthreads();
        if (batch_.shape.kept > 0) {
            each_round([&](index_t r, int round) { store(y, r, product_of_kept(round, x + away_)); });
        } else {
            batch_.rows.visit([&](const auto& rows) {
                // The columns of the matrix are counted from the first system on.
                const T* const all = x + away_ - first_row_;
                each_round([&](index_t r, int) { store(y, r, r < batch_.n ? product(rows, r, all) : T(0)); });
            });
        }
        __syncthreads();
    }

    template <class S>
    __device__ __forceinline__ const T* precondition(S* s, const T* from, T* to) {
        if (batch_.diagonal == nullptr) return from;
        sweep(s, read(from, maybe(batch_.diagonal)), write(to), TimesDiagonal<T>{});
        return to;
    }

    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then = {}) {
        sweep(s, reads.column(away_, first_row_), writes.column(away_), step, then,
              std::make_integer_sequence<int, kReads>{});
    }

private:
    template <class S, int kReads, unsigned kMissing, int kWrites, class Step, class Then, int... kIndex>
    __device__ __forceinline__ void sweep(S* s, const Reads<T, kReads, kMissing>& reads,
                                          const Writes<T, kWrites>& writes, const Step& step, const Then& then,
                                          std::integer_sequence<int, kIndex...> indices) {
        using Result = decltype(step(*s, reads.template at<kIndex>(0)...));
        if (s->stopped) return;
        const auto sums =
            sweep_elements<Result, 1>(batch_.n, threadIdx.x, batch_.shape.threads, *s, reads, writes, step, indices);
        if constexpr (Result::kSums > 0) add_up(s, sums, then);
    }

    // Scalars change in one thread, between two barriers.
    template <class S, int kSums, class Then>
    __device__ __forceinline__ void add_up(S* s, Sums<T, kSums> sums, const Then& then) {
        __shared__ W of_warps[kSums][Tuning::kMostThreads / kWarp];
        const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp, warps = batch_.shape.threads / kWarp;
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
            const W sum = sum_lanes(sums.value[k], kWarp);
            if (lane == 0) of_warps[k][warp] = sum;
        }
        __syncthreads();
        if (warp == 0) {
#pragma unroll
            for (int k = 0; k < kSums; ++k) sums.value[k] = sum_lanes(lane < warps ? of_warps[k][lane] : W{}, kWarp);
            if (lane == 0) then(*s, sums);
        }
        __syncthreads();
    }

    // Calls call(row of this thread, round); all threads do so as often.
    template <class Call>
    __device__ __forceinline__ void each_round(Call&& call) const {
        const int rounds = batch_.shape.rounds(batch_.n);
        index_t r = static_cast<index_t>(threadIdx.x) / batch_.shape.lanes;
        for (int round = 0; round < rounds; ++round, r += batch_.shape.rows_of_round()) call(r, round);
    }
    __device__ __forceinline__ void store(T* y, index_t r, T of_lane) const {
        const T sum = sum_lanes(of_lane, batch_.shape.lanes);
        if (lane_ == 0 && r < batch_.n) y[away_ + r] = sum;
    }

    // The entries that this thread keeps of a round: one for each thread, then the next ones. Columns follow values.
    __device__ __forceinline__ T* kept_values(int round) const {
        extern __shared__ double2 kept_memory[];
        return reinterpret_cast<T*>(kept_memory) + round * batch_.shape.kept * batch_.shape.threads + threadIdx.x;
    }
    __device__ __forceinline__ Column* kept_cols(int round) const {
        const T* const end = kept_values(batch_.shape.rounds(batch_.n)) - threadIdx.x;
        auto* const first = reinterpret_cast<Column*>(const_cast<T*>(end));
        return first + round * batch_.shape.kept * batch_.shape.threads + threadIdx.x;
    }
    __device__ __forceinline__ void keep() const {
        batch_.rows.visit([&](const auto& rows) {
            each_round([&](index_t r, int round) {
                const Row row = r < batch_.n ? rows.row(first_row_ + r) : Row{};
                for (int k = 0; k < batch_.shape.kept; ++k) {
                    index_t col = -1;
                    T value = 0;
                    const unsigned at = lane_ + k * batch_.shape.lanes;
                    if (at < row.count) rows.load(row, at, col, value);
                    kept_values(round)[k * batch_.shape.threads] = value;
                    kept_cols(round)[k * batch_.shape.threads] =
                        col < 0 ? Tuning::kNoColumn : static_cast<Column>(col - first_row_);
                }
            });
        });
    }

    // This lane's part of the product with the row of a round.
    __device__ __forceinline__ T product_of_kept(int round, const T* x) const {
        const T* const values = kept_values(round);
        const Column* const cols = kept_cols(round);
        T sum = 0;
#pragma unroll 4
        for (int k = 0; k < batch_.shape.kept; ++k) {
            const Column col = cols[k * batch_.shape.threads];
            if (col != Tuning::kNoColumn) sum += values[k * batch_.shape.threads] * gpu::load(x + col);
        }
        return sum;
    }
    // This lane's part of the product with a row that is read from memory.
    template <class Rows>
    __device__ __forceinline__ T product(const Rows& rows, index_t r, const T* x) const {
        constexpr int kRowEntries = Tuning::kRowEntries;
        const int lanes = batch_.shape.lanes;
        const Row row = rows.row(first_row_ + r);
        T sum = 0;
        for (unsigned k = lane_; k < row.count; k += kRowEntries * lanes) {
            index_t cols[kRowEntries];
            T factors[kRowEntries], gathered[kRowEntries];
#pragma unroll
            for (int i = 0; i < kRowEntries; ++i) {
                const unsigned at = k + i * lanes;
                cols[i] = -1;
                factors[i] = T(0);
                if (at < row.count) rows.load(row, at, cols[i], factors[i]);
            }
#pragma unroll
            for (int i = 0; i < kRowEntries; ++i) gathered[i] = cols[i] >= 0 ? gpu::load(x + cols[i]) : T(0);
#pragma unroll
            for (int i = 0; i < kRowEntries; ++i) {
                if (cols[i] >= 0) sum += factors[i] * gathered[i];
            }
        }
        return sum;
    }

    const BatchOfSystems<T>& batch_;
    std::int64_t away_;  // where the system begins in the vectors
    index_t first_row_;  // where the system begins in the matrix
    unsigned lane_;      // the thread's position among the lanes of its row
};

// Does iterations first, first + 1, ... of every system until its scalars end the solve, but no more than `count`.
template <class T, class S, class Iteration>
__global__ void __launch_bounds__(BatchTuning::kMostThreads, BatchTuning::kThreadsAtOnce / BatchTuning::kMostThreads)
    iterate_batch(const __grid_constant__ BatchOfSystems<T> batch, S* scalars,
                  const __grid_constant__ Iteration iteration, std::int64_t first, std::int64_t count) {
    static_assert(SolverRun<BatchRun<T>, T, S>);
    static_assert(std::is_trivially_copyable_v<S>);
    __shared__ alignas(S) unsigned char memory[sizeof(S)];
    S* const s = reinterpret_cast<S*>(memory);
    S* const own = batch.places.scalars_of(scalars, blockIdx.x);
    if (threadIdx.x == 0) new (memory) S(*own);
    __syncthreads();
    if (s->status != Status::kRunning) return;
    BatchRun<T> run(batch, blockIdx.x);
    for (std::int64_t k = first; k < first + count && s->status == Status::kRunning; ++k) iteration(run, s, k);
    if (threadIdx.x == 0) *own = *s;
}

// None unless the systems are a batch of small ones, with rows and a diagonal that the kernel can read.
template <class T>
std::optional<BatchOfSystems<T>> batch_of(const System<T>& system, const ColumnStrides& places) {
    const Matrix<T>* const matrix = system.A->matrix();
    if (system.batch == 1 || system.has_operator() || matrix == nullptr || system.n > BatchTuning::kMaxRows) {
        return std::nullopt;
    }
    return std::visit(
        [&]<class Format>(const Format& format) -> std::optional<BatchOfSystems<T>> {
            if constexpr (requires { rows_of(format); }) {
                const AnyRows<T> rows = rows_of(format);
                index_t longest_row = matrix->longest_row();
                if constexpr (Format::kTraits.reads_whole_diagonals) longest_row = format.diagonals();
                if (rows.are_permuted() || longest_row > BatchTuning::kLongestRow) return std::nullopt;
                const int ordinal = system.device.ordinal, processors = properties(ordinal).multiprocessors;
                int shared = 0;
                check(cudaDeviceGetAttribute(&shared, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
                      "cudaDeviceGetAttribute");
                const BatchShape shape =
                    batch_shape(system.n, longest_row, places.columns, sizeof(T), processors, shared);
                return BatchOfSystems<T>{system.n, shape, rows, system.diagonal(), places};
            } else {
                return std::nullopt;
            }
        },
        matrix->storage());
}

struct BatchShortcuts : NoShortcuts {
    template <class T, class S, class Iteration>
    static bool iterate(Context<T, CudaColumns>& solve, S* s, int /*period*/, const Iteration& iteration) {
        if (solve.limits.scaled) return false;  // the kernel's own products ignore scales
        const auto batch = batch_of(solve.work.system, solve.queue.places());
        if (!batch) return false;
        const auto kernel = iterate_batch<T, S, Iteration>;
        const auto kept = static_cast<int>(batch->shape.kept_bytes(batch->n, sizeof(T)));
        allow_shared_bytes(kernel, kept);
        std::int64_t first = 0, count = solve.iterations_per_look();
        do {
            kernel<<<solve.columns(), batch->shape.threads, kept, native(solve.queue.stream())>>>(*batch, s, iteration,
                                                                                                  first, count);
            check_launch("iterate_batch");
            first += count;
        } while (!solve.is_over(s));
        return solve.report.resident = true;
    }
};

}  // namespace spmvgpu::gpu
