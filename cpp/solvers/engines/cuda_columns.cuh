// Sweeps on a GPU over the columns of several right-hand sides, which lie one after the other: each kernel has a row of
// blocks for every column, with its own scalars and sums. A column that has stopped costs no more than the start of its
// blocks.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "solvers/engines/cuda_queue.cuh"

namespace spmvgpu::gpu {

struct BatchShortcuts;  // batch.cuh

// The number of columns, the number of systems that they belong to in turn, and the distances in bytes between the data
// of neighbouring ones.
struct ColumnStrides {
    int columns, batch = 1;
    std::size_t scalars = 0, partials = 0;

    __host__ __device__ index_t system_of(unsigned column) const { return static_cast<index_t>(column % batch); }

    template <class S>
    __host__ __device__ S* scalars_of(S* first, unsigned column) const {
        return moved(first, column * scalars);
    }
    __device__ Partials partials_of(const Partials& first, unsigned column) const {
        return {moved(first.sums, column * partials), moved(first.arrivals, column * partials)};
    }

private:
    template <class U>
    __host__ __device__ static U* moved(U* pointer, std::size_t bytes) {
        return reinterpret_cast<U*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
    }
};

// Two dimensions of a grid count the columns, as one has at most 65,535 blocks.
__device__ inline unsigned column_of_block() { return blockIdx.z * gridDim.y + blockIdx.y; }

template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    sweep_columns(index_t n, ColumnStrides places, S* scalars, Reads<T, kReads, kMissing> reads,
                  Writes<T, kWrites> writes, Step step, Then then, Partials partials) {
    const unsigned column = column_of_block();
    if (column >= places.columns) return;
    const std::int64_t away = std::int64_t(column) * n, shared_away = std::int64_t(places.system_of(column)) * n;
    sweep_block(n, places.scalars_of(scalars, column), reads.column(away, shared_away), writes.column(away), step, then,
                places.partials_of(partials, column), std::make_integer_sequence<int, kReads>{});
}

template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    each_column(index_t n, ColumnStrides places, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes,
                Step step) {
    const unsigned column = column_of_block();
    if (column >= places.columns) return;
    const std::int64_t away = std::int64_t(column) * n, shared_away = std::int64_t(places.system_of(column)) * n;
    each_block(n, reads.column(away, shared_away), writes.column(away), step,
               std::make_integer_sequence<int, kReads>{});
}

template <class S, class T, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    dots_of_columns(index_t n, ColumnStrides places, S* scalars, Basis<T> basis, int count, const T* w,
                    Wide<T>* results, Then then, Partials partials) {
    const unsigned column = column_of_block();
    if (column >= places.columns) return;
    const std::int64_t away = std::int64_t(column) * n;
    dots_block(n, places.scalars_of(scalars, column), basis.column(away), count, w + away,
               places.scalars_of(results, column), then, places.partials_of(partials, column));
}

template <class S, class T, class Count, class Then>
__global__ void __launch_bounds__(SweepTuning::kBlockSize, SweepTuning::kBlocksPerProcessor)
    combine_columns(index_t n, ColumnStrides places, S* scalars, Basis<T> basis, Count count, const Wide<T>* factors,
                    double sign, T* target, Then then, Partials partials) {
    const unsigned column = column_of_block();
    if (column >= places.columns) return;
    const std::int64_t away = std::int64_t(column) * n;
    combine_block(n, places.scalars_of(scalars, column), basis.column(away), count, places.scalars_of(factors, column),
                  sign, target + away, then, places.partials_of(partials, column));
}

template <class S, class Work>
__global__ void compute_columns(ColumnStrides places, S* scalars, Work work) {
    const unsigned column = column_of_block();
    if (column >= places.columns) return;
    S* const own = places.scalars_of(scalars, column);
    work_on(own, *own, work);
}

// Copies the first words of every column. It reads and writes pinned memory itself, because a copy of many short rows
// takes longer.
__global__ inline void copy_words_of_columns(ColumnStrides places, std::uint64_t* to, std::size_t to_pitch,
                                             const std::uint64_t* from, std::size_t from_pitch, unsigned words) {
    const std::int64_t i = std::int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
    const std::int64_t column = i / words, word = i % words;
    if (column < places.columns) to[column * to_pitch + word] = from[column * from_pitch + word];
}

class CudaColumns : public CudaQueue {
public:
    using Shortcuts = BatchShortcuts;

    // A CudaQueue with `partials` for every column, partial_bytes() apart; null if nothing is summed.
    CudaColumns(int ordinal, Stream stream, void* partials, ColumnStrides places)
        : CudaQueue(ordinal, stream, partials), places_(places), multiprocessors_(properties(ordinal).multiprocessors) {
        if (partials == nullptr) return;
        check(cudaMemset2DAsync(partials, places.partials, 0, 256, places.columns, native(stream)),
              "cudaMemset2DAsync");
    }

    int columns() const { return places_.columns; }
    const ColumnStrides& places() const { return places_; }

    template <class S, class T, int kReads, unsigned kMissing, int kWrites, class Step, class Then = NoWork>
    void sweep(S* scalars, index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step,
               Then then = {}) {
        sweep_columns<<<grid(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, places_, scalars, reads, writes,
                                                                                 step, then, partials());
        check_launch("sweep_columns");
    }
    template <class T, int kReads, unsigned kMissing, int kWrites, class Step>
    void each(index_t n, Reads<T, kReads, kMissing> reads, Writes<T, kWrites> writes, Step step) {
        each_column<<<grid(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, places_, reads, writes, step);
        check_launch("each_column");
    }

    template <class S, class T, class Then>
    void dots(S* scalars, index_t n, Basis<T> basis, int count, const T* w, Wide<T>* results, Then then) {
        dots_of_columns<<<grid(n), SweepTuning::kBlockSize, 0, native(stream())>>>(n, places_, scalars, basis, count, w,
                                                                                   results, then, partials());
        check_launch("dots_of_columns");
    }

    template <class S, class T, class Count, class Then>
    void combine(S* scalars, index_t n, Basis<T> basis, Count count, const Wide<T>* factors, double sign, T* target,
                 Then then) {
        combine_columns<<<grid(n), SweepTuning::kBlockSize, 0, native(stream())>>>(
            n, places_, scalars, basis, count, factors, sign, target, then, partials());
        check_launch("combine_columns");
    }

    template <class S, class Work>
    void compute(S* scalars, Work work) {
        compute_columns<<<grid(1), 1, 0, native(stream())>>>(places_, scalars, work);
        check_launch("compute_columns");
    }

    template <class S>
    void put_scalars(S* to, const S& value) {
        std::vector<S> values(columns(), value);
        for (int j = 1; j < columns(); ++j) {
            values[j].visit_pointers([&](auto*& pointer) { pointer = places_.scalars_of(pointer, j); });
        }
        put_columns(to, values);
    }

    // One copy for all columns.
    template <class S>
    std::vector<S> read_columns(const S* from) {
        std::vector<S> values(columns());
        auto* const staging = static_cast<S*>(pinned(columns() * sizeof(S)));
        copy_columns(staging, sizeof(S), from, places_.scalars);
        std::copy_n(staging, columns(), values.begin());
        return values;
    }
    template <class S>
    void put_columns(S* to, const std::vector<S>& values) {
        auto* const staging = static_cast<S*>(pinned(columns() * sizeof(S)));
        std::copy_n(values.begin(), columns(), staging);
        copy_columns(to, places_.scalars, staging, sizeof(S));
    }

private:
    dim3 grid(index_t n) const {
        constexpr unsigned kMost = 65535;
        const auto all = static_cast<unsigned>(columns());
        return {std::min(blocks(n), blocks_of_column(n)), std::min(all, kMost), (all + kMost - 1) / kMost};
    }

    // With more columns each needs fewer blocks; but it may be the last one that has not stopped.
    unsigned blocks_of_column(index_t n) const {
        constexpr index_t kElements = 16 * SweepTuning::kBlockSize;  // of a block that is not too short
        const auto enough = static_cast<unsigned>((n + kElements - 1) / kElements);
        return std::max<unsigned>(max_blocks_ / places_.columns, std::min(multiprocessors_, enough));
    }

    // Scalars between pinned memory and the device; complete when it returns.
    template <class S>
    void copy_columns(S* to, std::size_t to_pitch, const S* from, std::size_t from_pitch) {
        using Word = std::uint64_t;
        static_assert(sizeof(S) % sizeof(Word) == 0);
        constexpr unsigned kWords = sizeof(S) / sizeof(Word), kThreads = 256;
        const auto blocks = static_cast<unsigned>((std::int64_t(columns()) * kWords + kThreads - 1) / kThreads);
        copy_words_of_columns<<<blocks, kThreads, 0, native(stream())>>>(
            places_, reinterpret_cast<Word*>(to), to_pitch / sizeof(Word), reinterpret_cast<const Word*>(from),
            from_pitch / sizeof(Word), kWords);
        check_launch("copy_words_of_columns");
        check(cudaStreamSynchronize(native(stream())), "cudaStreamSynchronize");
    }

    ColumnStrides places_;
    unsigned multiprocessors_;
};

static_assert(Engine<CudaColumns>);

}  // namespace spmvgpu::gpu
