// Products of a multi-device matrix with vectors that lie on one GPU, the root. Other devices copy their part of x from
// there and their part of y back, all in the order of the caller's stream. Only a part on the CPU makes the host wait.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "gpu/stream.hpp"
#include "multi/device_part.hpp"

namespace spmvgpu {

template <class T>
class Broadcast {
public:
    explicit Broadcast(const std::vector<DevicePart<T>>& parts) : parts_(parts) {}  // which outlive it
    ~Broadcast();

    // x and y on the device `root`, to which the stream belongs. Threads take turns.
    void run(const Product<T>& product, Device root, Stream stream);

    std::size_t nbytes() const;

private:
    // A part that is not on the root.
    struct Lane {
        const DevicePart<T>* part;
        Device works_on;  // device of the stream: the part's GPU, or the root if the part is on the CPU
        std::shared_ptr<void> stream;
        std::shared_ptr<void> x, y;  // its window of x and its rows of y, where the part is
        Array<T> staging;            // on the root: its rows, once they could not go straight into y
        Array<index_t> map;          // on the root: where its rows belong, if scattered
        gpu::Event done;

        T* own_x() const { return static_cast<T*>(x.get()); }
        T* own_y() const { return static_cast<T*>(y.get()); }
    };
    struct Here {
        const DevicePart<T>* part;
        Array<index_t> map;
    };
    struct Root {
        explicit Root(const std::vector<DevicePart<T>>& parts, Device device);
        Device device;
        std::vector<std::unique_ptr<Lane>> lanes;
        std::vector<Here> here;
        gpu::Event begun, delivered;  // the caller's stream has reached this product; the part has delivered y
    };
    static std::unique_ptr<Lane> make_lane(const DevicePart<T>& part, Device root);
    static void send(const Root& root, Lane& lane, const Product<T>& product);
    static void multiply_and_return(Lane& lane, const Product<T>& product);
    static void deliver(const Root& root, Lane& lane, const Product<T>& product, Stream stream);

    const std::vector<DevicePart<T>>& parts_;
    mutable Mutex turn_;
    std::map<int, std::unique_ptr<Root>> roots_;  // made by the first product with vectors on a device
};

}  // namespace spmvgpu
