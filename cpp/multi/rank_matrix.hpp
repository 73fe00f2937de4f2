// The rows of a matrix over the GPUs of several processes that belong to one rank, and the product with pieces of
// vectors.
//
// A rank's rows are two matrices: one with the columns in its own piece of x, and one with the columns in others'
// pieces, its halo. The second one has only the rows with such columns, its boundary.
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

// Neighbouring elements of a buffer that one rank and this one exchange.
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

    // Calls fill(buffer), which queues work on `stream` that writes the outgoing columns, one after the other. The
    // messages are on a stream of their own, beside work that is queued on `stream` from now on.
    void begin(Stream stream, index_t columns, const std::function<void(T*)>& fill);
    // Orders work that is queued on `stream` from now on after the messages, and returns the address of their columns.
    const T* finish(Stream stream);
    // Frees the buffers once the work that is queued on `stream` now is done.
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
    // Or their transposes; without a halo (nullptr) there is no boundary.
    std::shared_ptr<const AnyMatrix<T>> inner, halo;
    Array<index_t> boundary;
    Array<index_t> wanted;  // elements of this rank's piece in the halos of others
};

// y = A x: a rank receives the elements of x in its halo while it multiplies its own.
template <class T>
class RankMatrix : public AnyMatrix<T> {
public:
    // Messages of a RankExchange: it sends the wanted elements and receives the halo.
    RankMatrix(RankBlocks<T> blocks, RankExchange<T> exchange);

    void spmv(const Product<T>& product, Stream stream) const override;

    void spmv_host(const Product<T>&) const override { refuse(); }
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
    mutable Mutex in_use_;  // protects the exchange
};

// y = A^T x, for transposed blocks: terms of boundary rows for others' elements of y are sent while the rank multiplies
// its own. Received terms are added in the order of the ranks, whichever comes first.
template <class T>
class TransposedRankMatrix : public RankMatrix<T> {
public:
    // Messages in the other direction: it sends the halo, and receives terms of the wanted elements.
    using RankMatrix<T>::RankMatrix;

    void spmv(const Product<T>& product, Stream stream) const override;
    std::size_t nbytes() const override { return RankMatrix<T>::nbytes() + of_boundary_.bytes(); }

private:
    mutable Array<T> of_boundary_;  // x in the boundary
};

}  // namespace spmvgpu
