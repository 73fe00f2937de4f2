#include "multi/rank_matrix.hpp"

#include <stdexcept>
#include <utility>

#include "gpu/gather.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

namespace {

// Makes room for this many elements, without the previous contents.
template <class T>
T* room_for(Array<T>& buffer, std::size_t elements, Device device) {
    if (buffer.size() < elements) {
        buffer = {};
        buffer = Array<T>(elements, device);
    }
    return buffer.data();
}

}  // namespace

template <class T>
RankExchange<T>::RankExchange(std::shared_ptr<const gpu::NcclCommunicator> ranks, std::vector<RankMessage> sent,
                              std::vector<RankMessage> received)
    : ranks_(std::move(ranks)),
      sent_(std::move(sent)),
      received_(std::move(received)),
      messages_stream_(gpu::lease_stream(device())),
      filled_(device()),
      arrived_(device()),
      released_(device()) {}

template <class T>
std::vector<gpu::NcclMessage> RankExchange<T>::of(const std::vector<RankMessage>& messages, Array<T>& buffer,
                                                  index_t columns) {
    std::vector<gpu::NcclMessage> of_columns;
    for (index_t column = 0; column < columns; ++column) {
        T* const begin = buffer.data() + std::size_t(column) * count(messages);
        for (const RankMessage& m : messages) {
            of_columns.push_back({m.rank, begin + m.begin, std::size_t(m.end - m.begin) * sizeof(T)});
        }
    }
    return of_columns;
}

template <class T>
void RankExchange<T>::begin(Stream stream, index_t columns, const std::function<void(T*)>& fill) {
    if (was_used_ && stream != last_stream_) released_.hold_back(stream);
    last_stream_ = stream;
    was_used_ = true;
    T* const outgoing = room_for(outgoing_, std::size_t(columns) * sent(), device());
    room_for(incoming_, std::size_t(columns) * received(), device());
    fill(outgoing);
    filled_.record(stream);
    filled_.hold_back(messages_stream_.get());
    ranks_->exchange(of(sent_, outgoing_, columns), of(received_, incoming_, columns), messages_stream_.get());
    arrived_.record(messages_stream_.get());
}

template <class T>
const T* RankExchange<T>::finish(Stream stream) {
    arrived_.hold_back(stream);
    return incoming_.data();
}

template <class T>
void RankExchange<T>::release(Stream stream) {
    if (!gpu::is_capturing(stream, device())) released_.record(stream);
}

template <class T>
RankMatrix<T>::RankMatrix(RankBlocks<T> blocks, RankExchange<T> exchange)
    : blocks_(std::move(blocks)), exchange_(std::move(exchange)) {
    blocks_.inner->check_spmv();
    if (blocks_.halo != nullptr) blocks_.halo->check_spmv();
}

template <class T>
void RankMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    const gpu::DeviceGuard guard(device());
    const std::lock_guard turn(in_use_);
    exchange_.begin(stream, product.columns, [&](T* sent) {
        for (index_t column = 0; column < product.columns; ++column) {
            gpu::gather(sent + std::size_t(column) * exchange_.sent(), product.x + column * product.x_strides.column,
                        blocks_.wanted.data(), exchange_.sent(), device(), stream, product.x_strides.row);
        }
    });
    blocks_.inner->spmv(product, stream);
    Product<T> of_halo = product;
    of_halo.x = exchange_.finish(stream);
    of_halo.x_strides = {1, exchange_.received()};
    of_halo.beta = T(1);
    of_halo.row_map = blocks_.boundary.data();
    if (blocks_.halo != nullptr) blocks_.halo->spmv(of_halo, stream);
    exchange_.release(stream);
}

template <class T>
bool RankMatrix<T>::can_be_recorded() const {
    return blocks_.inner->can_be_recorded() && (blocks_.halo == nullptr || blocks_.halo->can_be_recorded());
}

template <class T>
std::int64_t RankMatrix<T>::nnz() const {
    return blocks_.inner->nnz() + (blocks_.halo == nullptr ? 0 : blocks_.halo->nnz());
}

template <class T>
std::size_t RankMatrix<T>::nbytes() const {
    const std::lock_guard turn(in_use_);
    return blocks_.inner->nbytes() + (blocks_.halo == nullptr ? 0 : blocks_.halo->nbytes()) + blocks_.boundary.bytes() +
           blocks_.wanted.bytes() + exchange_.nbytes();
}

template <class T>
void RankMatrix<T>::refuse() {
    throw std::logic_error("the rows of a rank multiply vectors on its GPU only");
}

template <class T>
void TransposedRankMatrix<T>::spmv(const Product<T>& product, Stream stream) const {
    const auto& [inner, halo, boundary, wanted] = this->blocks_;
    const Device device = this->device();
    const gpu::DeviceGuard guard(device);
    const std::lock_guard turn(this->in_use_);
    auto& exchange = this->exchange_;
    const auto rows = static_cast<index_t>(boundary.size());
    exchange.begin(stream, product.columns, [&](T* sent) {
        if (halo == nullptr) return;
        T* const of_boundary = room_for(of_boundary_, std::size_t(product.columns) * rows, device);
        for (index_t column = 0; column < product.columns; ++column) {
            gpu::gather(of_boundary + std::size_t(column) * rows, product.x + column * product.x_strides.column,
                        boundary.data(), rows, device, stream, product.x_strides.row);
        }
        Product<T> of_halo = product;
        of_halo.x = of_boundary;
        of_halo.x_strides = {1, rows};
        of_halo.y = sent;
        of_halo.y_strides = {1, exchange.sent()};
        of_halo.beta = T(0);
        halo->spmv(of_halo, stream);
    });
    inner->spmv(product, stream);
    const T* const sums = exchange.finish(stream);
    for (index_t column = 0; column < product.columns; ++column) {
        T* const y = product.y + column * product.y_strides.column;
        const T* const of_column = sums + std::size_t(column) * exchange.received();
        for (const RankMessage& m : exchange.received_messages()) {  // a message has no element twice
            gpu::scatter(y, of_column + m.begin, wanted.data() + m.begin, m.end - m.begin, T(1), device, stream,
                         product.y_strides.row);
        }
    }
    exchange.release(stream);
}

#define INSTANTIATE(T)              \
    template class RankExchange<T>; \
    template class RankMatrix<T>;   \
    template class TransposedRankMatrix<T>;
SPMVGPU_FOR_VALUE_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace spmvgpu
