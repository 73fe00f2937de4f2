#include "multi/streamed_matrix.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "core/host_vector.hpp"
#include "core/parallel.hpp"
#include "gpu/runtime.hpp"
#include "gpu/transfer.hpp"
#include "matrix/launch.hpp"

namespace spmvgpu {

namespace {

// Bytes of an array within a block, padded so that the next one is aligned.
template <class V>
std::size_t room_for(std::size_t count) {
    constexpr std::size_t kAlignment = 256;
    return (count * sizeof(V) + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
std::size_t block_bytes(std::size_t rows, std::size_t nnz) {
    return room_for<index_t>(rows + 1) + room_for<index_t>(nnz) + room_for<T>(nnz);
}

}  // namespace

template <class T>
StreamedMatrix<T>::StreamedMatrix(const CsrMatrix<T>& csr, Device gpu, std::size_t chunk_bytes)
    : device_(gpu), rows_(csr.rows), cols_(csr.cols), nnz_(csr.nnz) {
    const gpu::DeviceGuard guard(gpu);
    const auto start = std::chrono::steady_clock::now();
    std::size_t largest = 0;
    for (index_t first = 0, end = 0; first < rows_; first = end) {
        const auto bytes_to = [&](index_t row) {
            return block_bytes<T>(row - first, csr.row_offsets[row] - csr.row_offsets[first]);
        };
        for (end = first + 1; end < rows_ && bytes_to(end + 1) <= chunk_bytes;) ++end;
        chunks_.push_back(make_chunk(csr, first, end));
        largest = std::max(largest, bytes_to(end));
    }
    for (auto& buffer : buffers_) buffer.reset(new Buffer{Array<char>(largest, gpu), {}, {}});
    sending_ = gpu::lease_stream(gpu);
    setup_.convert = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Queued work uses memory that is about to be freed.
template <class T>
StreamedMatrix<T>::~StreamedMatrix() {
    try {
        gpu::synchronize(sending_.get(), device_);
        for (const auto& buffer : buffers_) buffer->used.synchronize();
    } catch (...) {  // the device and its work are lost
    }
}

template <class T>
typename StreamedMatrix<T>::Chunk StreamedMatrix<T>::make_chunk(const CsrMatrix<T>& csr, index_t first,
                                                                index_t end) const {
    const index_t begin = csr.row_offsets[first], nnz = csr.row_offsets[end] - begin;
    Chunk chunk{first, end - first, nnz, {}, gpu::allocate_pinned(block_bytes<T>(end - first, nnz))};
    CsrMatrix<T> inside = csr_in(chunk, chunk.block.get());
    for (index_t row = 0; row <= chunk.rows; ++row) inside.row_offsets[row] = csr.row_offsets[first + row] - begin;
    parallel_copy(inside.col_indices.data(), csr.col_indices.data() + begin, inside.col_indices.bytes());
    parallel_copy(inside.values.data(), csr.values.data() + begin, inside.values.bytes());
    CsrTuning tuning;
    tuning.kernel = CsrKernel::kShuffle;  // this kernel needs no plan, and the bus is the limit in any case
    chunk.plan = Csr<T>::plan(inside, tuning, {device_, 1});
    return chunk;
}

template <class T>
CsrMatrix<T> StreamedMatrix<T>::csr_in(const Chunk& chunk, const void* block) const {
    const char* const offsets = static_cast<const char*>(block);
    const char* const columns = offsets + room_for<index_t>(chunk.rows + std::size_t(1));
    const char* const values = columns + room_for<index_t>(chunk.nnz);
    return {chunk.rows,
            cols_,
            chunk.nnz,
            Array<index_t>::view(reinterpret_cast<const index_t*>(offsets), chunk.rows + std::size_t(1)),
            Array<index_t>::view(reinterpret_cast<const index_t*>(columns), chunk.nnz),
            Array<T>::view(reinterpret_cast<const T*>(values), chunk.nnz)};
}

// The sending stream runs ahead of the caller's by two chunks: it waits only for a buffer's last use, on whichever
// stream that was.
template <class T>
void StreamedMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    const gpu::DeviceGuard guard(device_);
    if (gpu::is_capturing(stream, device_)) {
        throw std::invalid_argument("products with a matrix that is streamed from the host cannot be captured");
    }
    const std::lock_guard turn(turn_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
        const Chunk& chunk = chunks_[i];
        Buffer& buffer = *buffers_[i % 2];
        buffer.used.hold_back(sending_.get());
        gpu::copy_async(buffer.memory.data(), chunk.block.get(), block_bytes<T>(chunk.rows, chunk.nnz), sending_.get());
        buffer.filled.record(sending_.get());
        buffer.filled.hold_back(stream);
        launch(Csr<T>::from_csr(csr_in(chunk, buffer.memory.data()), chunk.plan), product.from(chunk.first_row, 0),
               device_, stream);
        buffer.used.record(stream);
    }
}

template <class T>
void StreamedMatrix<T>::spmv_host(const Product<T>& product) const {
    host_vectors_.run(*this, product);
}

template <class T>
double StreamedMatrix<T>::time_products(const Series& series) const {
    const HostVector<T> x(cols_, T(1));
    HostVector<T> y(rows_);
    return time_launches([&](Stream) { spmv_host({x.data(), y.data()}); }, {1, 0, series.batch * series.repeats}, {});
}

template <class T>
CsrMatrix<T> StreamedMatrix<T>::to_csr() const {
    auto csr = CsrMatrix<T>::allocate(rows_, cols_, nnz_);
    index_t done = 0;
    csr.row_offsets[0] = 0;
    for (const Chunk& chunk : chunks_) {
        const CsrMatrix<T> inside = csr_in(chunk, chunk.block.get());
        for (index_t row = 1; row <= chunk.rows; ++row) {
            csr.row_offsets[chunk.first_row + row] = done + inside.row_offsets[row];
        }
        std::copy(inside.col_indices.begin(), inside.col_indices.end(), csr.col_indices.begin() + done);
        std::copy(inside.values.begin(), inside.values.end(), csr.values.begin() + done);
        done += chunk.nnz;
    }
    return csr;
}

template <class T>
std::size_t StreamedMatrix<T>::nbytes() const {
    return buffers_[0]->memory.bytes() + buffers_[1]->memory.bytes() + host_vectors_.nbytes();
}

#define INSTANTIATE(T) template class StreamedMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
