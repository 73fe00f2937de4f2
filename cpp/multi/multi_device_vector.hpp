// Vectors that stay on the devices of a multi-device matrix, each of which keeps the piece whose rows it computes; and
// the products of such vectors, before which a device pulls from the others the elements of their pieces that its rows
// read.
#pragma once

#include <list>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "gpu/stream.hpp"
#include "multi/halos.hpp"

namespace spmvgpu {

template <class T>
class HaloProducts;

template <class T>
class MultiDeviceVector {
public:
    ~MultiDeviceVector();
    MultiDeviceVector(const MultiDeviceVector&) = delete;
    MultiDeviceVector& operator=(const MultiDeviceVector&) = delete;

    index_t size() const { return size_; }
    // Both take turns with products of such vectors, wait for queued ones, and are complete on return.
    void assign(const T* host);
    void collect(T* host) const;
    std::size_t nbytes() const;  // on GPUs

private:
    friend class HaloProducts<T>;
    // One device's copy. It has room for the whole vector, of which [begin, end) is its own; the other elements that
    // its part reads are present only during a product.
    struct Piece {
        Device device;
        index_t begin, end;
        std::shared_ptr<void> memory;  // page-locked on the CPU if there are GPUs as well
        std::shared_ptr<void> stream;  // for a GPU: all its products run there
        gpu::Event made, pulled;       // on a GPU: its own part is complete; the halo has arrived

        T* data() const { return static_cast<T*>(memory.get()); }
        std::size_t bytes() const { return std::size_t(end - begin) * sizeof(T); }
    };
    explicit MultiDeviceVector(const HaloProducts<T>& layout);
    void wait() const;

    const HaloProducts<T>* layout_;  // layout of the vector, which outlives it
    index_t size_;
    std::vector<Piece> pieces_;
};

template <class T>
class HaloProducts {
public:
    explicit HaloProducts(const Halos<T>& halos);  // which outlive it
    ~HaloProducts();

    std::unique_ptr<MultiDeviceVector<T>> make_vector() const;

    // y = alpha*A*x + beta*y, each piece of y on its device. Returns once the work of the GPUs is queued and the CPU
    // has done its own. Threads take turns. If the host queues a product more slowly than the GPUs compute it, and
    // repeats it with the same vectors, its work is recorded: one graph for each GPU, which waits for its neighbours
    // alone. Products of a CPU and GPUs are never recorded.
    void run(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y);

    void synchronize() const;  // waits for all that was queued

private:
    friend class MultiDeviceVector<T>;
    using Lane = typename Halos<T>::Lane;
    using Piece = typename MultiDeviceVector<T>::Piece;
    // A product that was asked for, how often in turn the host came too late with it, and its recorded work, of each
    // lane.
    struct Repeated {
        std::vector<gpu::Event> events;  // what identifies x and y: the events of their pieces
        T alpha, beta;
        int times = 0;
        std::vector<gpu::Replay> replays = {};
    };
    // The recorded work of the lanes; null if the work is to be queued.
    const gpu::Replay* recorded(T alpha, MultiDeviceVector<T>& x, T beta, MultiDeviceVector<T>& y);
    Repeated& repeated(T alpha, const MultiDeviceVector<T>& x, T beta, const MultiDeviceVector<T>& y);
    // Queues the work of a lane, or has it recorded.
    void multiply_on_gpu(const Lane& lane, const Product<T>& product, MultiDeviceVector<T>& x, MultiDeviceVector<T>& y,
                         bool is_recorded = false) const;
    void multiply_on_cpu(const Lane& lane, const Product<T>& product, MultiDeviceVector<T>& x,
                         MultiDeviceVector<T>& y) const;
    static Product<T> product_of(T alpha, const Piece& x, T beta, const Piece& y) {
        return {x.data(), y.data() + y.begin, alpha, beta};
    }
    Stream stream_of(const Lane& lane) const { return streams_[number(lane)].get(); }
    Stream pulling_of(const Lane& lane) const {
        return lane.has_interior() ? pulling_[number(lane)].get() : stream_of(lane);
    }
    std::size_t number(const Lane& lane) const { return &lane - halos_.lanes().data(); }

    const Halos<T>& halos_;
    std::vector<std::shared_ptr<void>> streams_;   // of each lane on a GPU
    std::vector<std::shared_ptr<void>> pulling_;   // for each lane with an interior: for its pulls
    std::vector<std::shared_ptr<void>> downward_;  // for each GPU: for pulls by the CPU
    std::list<Repeated> repeated_;                 // the last one first
    mutable Mutex turn_;
};

}  // namespace spmvgpu
