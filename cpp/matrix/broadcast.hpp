// Products of a spread matrix with vectors that lie on one GPU, the home: other devices get their part of x from there
// and put their part of y back by copies of their own, all in the order of the caller's stream. Only a share on the CPU
// makes the host wait.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/mutex.hpp"
#include "cuda/stream.hpp"
#include "matrix/shard.hpp"

namespace spmvgpu {

template <class T>
class Broadcast {
public:
    explicit Broadcast(const std::vector<Share<T>>& shares) : shares_(shares) {}  // which outlive it
    ~Broadcast();

    // x and y on the device `home`, to which the stream belongs. Threads take turns.
    void run(const Product<T>& product, Device home, Stream stream);

    std::size_t nbytes() const;

private:
    // A share that is not at home.
    struct Lane {
        const Share<T>* share;
        Device works_on;  // device of the stream: the share's GPU, or home if the share is on the CPU
        std::shared_ptr<void> stream;
        std::shared_ptr<void> x, y;  // its window of x and its rows of y, where the share is
        Array<T> landing;            // at home: its rows, once they could not go straight into y
        Array<index_t> map;          // at home: where its rows belong, if scattered
        cuda::Event done;

        T* own_x() const { return static_cast<T*>(x.get()); }
        T* own_y() const { return static_cast<T*>(y.get()); }
    };
    struct Here {
        const Share<T>* share;
        Array<index_t> map;
    };
    struct Home {
        explicit Home(const std::vector<Share<T>>& shares, Device device);
        Device device;
        std::vector<std::unique_ptr<Lane>> lanes;
        std::vector<Here> here;
        cuda::Event begun, landed;  // the caller's stream had come to this product; has what it gave
    };
    static std::unique_ptr<Lane> make_lane(const Share<T>& share, Device home);
    static void send(const Home& home, Lane& lane, const Product<T>& product);
    static void multiply_and_return(const Home& home, Lane& lane, const Product<T>& product);
    static void land(const Home& home, Lane& lane, const Product<T>& product, Stream stream);

    const std::vector<Share<T>>& shares_;
    mutable Mutex turn_;
    std::map<int, std::unique_ptr<Home>> homes_;  // made by the first product with vectors on a device
};

}  // namespace spmvgpu
