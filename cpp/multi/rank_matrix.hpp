// The rows that one rank has of a matrix over the GPUs of several processes, and the product with pieces of vectors.
//
// A rank's rows are two matrices: with the columns that are in its own piece of x, and with those that are in others'
// pieces, its halo, of the rows only that have such columns, its boundary.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "core/array.hpp"
#include "core/mutex.hpp"
#include "gpu/nccl.hpp"
#include "gpu/stream.hpp"
#include "matrix/any_matrix.hpp"

namespace spmvgpu {

// Neighbouring elements of a buffer, which one rank and this one have for each other.
struct RankMessage {
    int rank;
    index_t begin, end;
};

// Messages between the GPUs of the ranks, from one buffer into another, a column at a time.
template <class T>
class RankExchange {
public:
    RankExchange(std::shared_ptr<const gpu::NcclCommunicator> ranks, std::vector<RankMessage> sent,
                 std::vector<RankMessage> received);

    index_t sent() const { return count(sent_); }
    index_t received() const { return count(received_); }
    const std::vector<RankMessage>& received_messages() const { return received_; }
    std::size_t nbytes() const { return outgoing_.bytes() + incoming_.bytes(); }
    Device device() const { return {ranks_->ordinal()}; }

    // Calls fill(buffer), which queues on `stream` what fills it: the columns of what is sent, one after the other. The
    // messages go on a stream of their own, beside what is queued on `stream` from now on.
    void begin(Stream stream, index_t columns, const std::function<void(T*)>& fill);
    // What is queued on `stream` from now on comes after the messages, whose columns lie where this says.
    const T* finish(Stream stream);
    // The buffers are free again when what is queued on `stream` now is done.
    void release(Stream stream);

private:
    static index_t count(const std::vector<RankMessage>& messages) {
        return messages.empty() ? 0 : messages.back().end;
    }
    static std::vector<gpu::NcclMessage> of(const std::vector<RankMessage>& messages, Array<T>& buffer,
                                            index_t columns);

    std::shared_ptr<const gpu::NcclCommunicator> ranks_;
    std::vector<RankMessage> sent_, received_;
    Array<T> outgoing_, incoming_;
    std::shared_ptr<void> messages_stream_;
    Stream last_stream_ = nullptr;
    bool was_used_ = false;
    gpu::Event filled_, arrived_, released_;
};

// The matrices of a rank and their maps, on its GPU.
template <class T>
struct RankBlocks {
    std::shared_ptr<const AnyMatrix<T>> inner, halo;  // or their transposes; no halo (nullptr): no boundary
    Array<index_t> boundary;                          // rows
    Array<index_t> wanted;                            // elements of this rank's piece that others have for their halos
};

// y = A x: a rank is sent the elements of x in its halo, while it multiplies its own.
template <class T>
class RankMatrix : public AnyMatrix<T> {
public:
    // Messages as RankExchange sends and receives them: the elements that are wanted, and those of the halo.
    RankMatrix(RankBlocks<T> blocks, RankExchange<T> exchange);

    void spmv(const Product<T>& product, Stream stream) const override;

    void spmv_host(const Product<T>&) const override { refuse(); }
    void set_x(const T*) override { refuse(); }
    double time_products(const Series&) const override { refuse(); }
    bool can_be_recorded() const override;
    Device device() const override { return blocks_.inner->device(); }
    index_t rows() const override { return blocks_.inner->rows(); }
    index_t cols() const override { return blocks_.inner->cols(); }
    std::int64_t nnz() const override;
    std::size_t nbytes() const override;
    SetupSeconds setup_seconds() const override { return {}; }

protected:
    [[noreturn]] static void refuse();

    RankBlocks<T> blocks_;
    mutable RankExchange<T> exchange_;
    mutable Mutex in_use_;  // of the exchange
};

// y = A^T x, of transposed blocks: what boundary rows add to others' elements of y is sent there while the rank
// multiplies its own. Such sums are added in the order of the ranks, whichever comes first.
template <class T>
class TransposedRankMatrix : public RankMatrix<T> {
public:
    // Messages the other way round: those of the halo, and sums for the elements that are wanted.
    using RankMatrix<T>::RankMatrix;

    void spmv(const Product<T>& product, Stream stream) const override;
    std::size_t nbytes() const override { return RankMatrix<T>::nbytes() + of_boundary_.bytes(); }

private:
    mutable Array<T> of_boundary_;  // x
};

}  // namespace spmvgpu
