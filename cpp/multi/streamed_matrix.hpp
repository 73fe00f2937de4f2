// StreamedMatrix<T>: a matrix in CSR that stays in page-locked host memory, because it does not fit on the GPU that
// multiplies it. Each product sends it through two buffers on the GPU, chunk by chunk: one is filled while the rows in
// the other are multiplied. A product so takes as long as the transfer of the matrix.
#pragma once

#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "formats/csr/layout.hpp"
#include "gpu/stream.hpp"
#include "matrix/any_matrix.hpp"
#include "matrix/host_vectors.hpp"

namespace spmvgpu {

template <class T>
class StreamedMatrix : public AnyMatrix<T> {
public:
    // A canonical matrix in host memory, to be sent in chunks of whole rows of up to chunk_bytes, or of one row.
    StreamedMatrix(const CsrMatrix<T>& csr, Device gpu, std::size_t chunk_bytes);
    ~StreamedMatrix() override;

    void spmv(const Product<T>& product, Stream stream) const override;
    void spmv_host(const Product<T>& product) const override;
    bool can_be_recorded() const override { return false; }
    bool takes_rows() const override { return true; }
    double time_products(const Series& series) const override;  // wall time

    CsrMatrix<T> to_csr() const;  // in host memory

    Device device() const override { return device_; }
    index_t rows() const override { return rows_; }
    index_t cols() const override { return cols_; }
    std::int64_t nnz() const override { return nnz_; }
    std::size_t nbytes() const override;
    SetupSeconds setup_seconds() const override { return setup_; }

private:
    // Some rows. Their arrays are in one block in host memory and, during their product, at equal offsets in a buffer
    // on the GPU.
    struct Chunk {
        index_t first_row, rows, nnz;
        CsrPlan plan;
        std::shared_ptr<void> block;
    };
    struct Buffer {
        Array<char> memory;
        gpu::Event filled, used;
    };
    Chunk make_chunk(const CsrMatrix<T>& csr, index_t first, index_t end) const;
    CsrMatrix<T> csr_in(const Chunk& chunk, const void* block) const;  // a window on the block

    Device device_;
    index_t rows_, cols_, nnz_;
    SetupSeconds setup_;
    std::vector<Chunk> chunks_;
    std::shared_ptr<void> sending_;  // stream
    mutable Mutex turn_;
    mutable std::unique_ptr<Buffer> buffers_[2];
    mutable HostVectors<T> host_vectors_;
};

}  // namespace spmvgpu
