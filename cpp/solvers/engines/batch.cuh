// The iterations of a batch of small systems within one kernel, which has a block for each of them.
//
// An iteration of many small systems that are swept over together reads all matrices from the device's memory. A block
// stays with its system: what the blocks that run at the same time read stays in the L2, no block waits for another,
// and one whose system is solved makes room for the next. The price is a product by a single block,
//
//     rounds of rows    n lanes / 512 threads, each two loads deep in the L2    about 1 us
//     three sums        a barrier of the block each                            about 0.2 us
//
// so this suits systems of a few rounds.
#pragma once

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "solvers/engines/context.hpp"
#include "solvers/engines/cuda_columns.cuh"
#include "solvers/engines/resident.cuh"

namespace spmvgpu::gpu {

struct BatchTuning {
    static constexpr int kBlockSize = 512;
    static constexpr int kRowEntries = 4;  // of a lane, in flight
    static constexpr index_t kMaxRows = 8192;
    static constexpr std::int64_t kMaxEntries = 1 << 17;  // of a system
};

template <class T>
struct BatchOfSystems {
    index_t n;
    int lanes;  // that share a row
    AnyRows<T> rows;
    const T* diagonal;  // M as a diagonal; null: no M
    ColumnStrides places;
};

// The run of iterations of one system. The thread that owns an element of the vectors reads and writes it without a
// wait; barriers of the block stand around products and in sums.
template <class T>
class BatchRun : public RunSteps<BatchRun<T>, T> {
    using Tuning = BatchTuning;
    using W = Wide<T>;

public:
    __device__ __forceinline__ BatchRun(const BatchOfSystems<T>& batch, unsigned column)
        : batch_(batch),
          away_(std::int64_t(column) * batch.n),
          first_row_(batch.places.system_of(column) * batch.n),
          lane_(threadIdx.x % batch.lanes) {}

    __device__ bool has_preconditioner() const { return batch_.diagonal != nullptr; }

    __device__ __forceinline__ void multiply(const T* x, T* y) {
        // The columns of the matrix are counted from the first system on.
        const std::int64_t of_vectors = away_ - first_row_;
        __syncthreads();
        batch_.rows.visit([&](const auto& rows) {
            const index_t each = Tuning::kBlockSize / batch_.lanes;
            for (index_t first = 0; first < batch_.n; first += each) {
                const index_t r = first + static_cast<index_t>(threadIdx.x) / batch_.lanes;
                const T sum =
                    sum_lanes(r < batch_.n ? product(rows, first_row_ + r, x + of_vectors) : T(0), batch_.lanes);
                if (lane_ == 0 && r < batch_.n) y[of_vectors + rows.number(first_row_ + r)] = sum;
            }
        });
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
            sweep_elements<Result, 1>(batch_.n, threadIdx.x, Tuning::kBlockSize, *s, reads, writes, step, indices);
        if constexpr (Result::kSums > 0) add_up(s, sums, then);
    }

    // Scalars change in one thread, between two barriers.
    template <class S, int kSums, class Then>
    __device__ __forceinline__ void add_up(S* s, Sums<T, kSums> sums, const Then& then) {
        constexpr int kWarps = Tuning::kBlockSize / kWarp;
        __shared__ W of_warps[kSums][kWarps];
        const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
#pragma unroll
        for (int k = 0; k < kSums; ++k) {
            const W sum = sum_lanes(sums.value[k], kWarp);
            if (lane == 0) of_warps[k][warp] = sum;
        }
        __syncthreads();
        if (warp == 0) {
#pragma unroll
            for (int k = 0; k < kSums; ++k) sums.value[k] = sum_lanes(lane < kWarps ? of_warps[k][lane] : W{}, kWarp);
            if (lane == 0) then(*s, sums);
        }
        __syncthreads();
    }

    // This lane's part of the product with a row.
    template <class Rows>
    __device__ __forceinline__ T product(const Rows& rows, index_t number, const T* x) const {
        constexpr int kRowEntries = Tuning::kRowEntries;
        const Row row = rows.row(number);
        T sum = 0;
        for (unsigned k = lane_; k < row.count; k += kRowEntries * batch_.lanes) {
            index_t cols[kRowEntries];
            T factors[kRowEntries], gathered[kRowEntries];
#pragma unroll
            for (int i = 0; i < kRowEntries; ++i) {
                const unsigned at = k + i * batch_.lanes;
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
    std::int64_t away_;  // of the system's vectors
    index_t first_row_;  // of the system, in the matrix
    unsigned lane_;      // the thread's position among the lanes of its row
};

// Does iterations first, first + 1, ... of every system until its scalars end the solve, but no more than `count`.
template <class T, class S, class Iteration>
__global__ void __launch_bounds__(BatchTuning::kBlockSize)
    iterate_batch(const __grid_constant__ BatchOfSystems<T> batch, S* scalars,
                  const __grid_constant__ Iteration iteration, std::int64_t first, std::int64_t count) {
    static_assert(SolverRun<BatchRun<T>, T, S>);
    static_assert(std::is_trivially_copyable_v<S>);
    __shared__ alignas(S) unsigned char memory[sizeof(S)];
    S* const s = reinterpret_cast<S*>(memory);
    S* const own = batch.places.scalars_of(scalars, blockIdx.x);
    if (threadIdx.x == 0) new (memory) S(*own);
    __syncthreads();
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
                const std::int64_t entries = format.nnz / system.batch;
                if (rows.are_permuted() || entries > BatchTuning::kMaxEntries) return std::nullopt;
                int lanes = 1;
                while (lanes < kWarp && std::int64_t(lanes) * BatchTuning::kRowEntries * system.n < entries) lanes *= 2;
                return BatchOfSystems<T>{system.n, lanes, rows, system.diagonal(), places};
            } else {
                return std::nullopt;
            }
        },
        matrix->storage());
}

struct BatchShortcuts : NoShortcuts {
    template <class T, class S, class Iteration>
    static bool iterate(Context<T, CudaColumns>& solve, S* s, int /*period*/, const Iteration& iteration) {
        const auto batch = batch_of(solve.work.system, solve.queue.places());
        if (!batch) return false;
        std::int64_t first = 0, count = solve.iterations_per_look();
        do {
            iterate_batch<<<solve.columns(), BatchTuning::kBlockSize, 0, native(solve.queue.stream())>>>(
                *batch, s, iteration, first, count);
            check_launch("iterate_batch");
            first += count;
        } while (!solve.is_over(s));
        return solve.report.resident = true;
    }
};

}  // namespace spmvgpu::gpu
