// Scratch space for the products of one matrix.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/array.hpp"
#include "core/mutex.hpp"
#include "gpu/timing.hpp"

namespace spmvgpu {

// A space is private to a stream, whose work is ordered, so that products on several streams never share one. Threads
// that share a stream take turns, so that the kernels of one product stay together. Some memory is set aside for
// streams to come, because nothing can be allocated on a stream that is being captured into a graph.
class Workspaces {
public:
    struct Space {
        Mutex in_use;
        Array<char> memory;          // zero at first, if the spaces are zeroed
        std::uint64_t gathered = 0;  // version of x that was gathered into it, or 0
    };

    // Spaces of this size, on a device whose matrix has matrix_bytes.
    Workspaces(std::size_t bytes, Device device, std::size_t matrix_bytes, bool zeroed = true);

    Space* of(Stream stream);  // nullptr if no bytes are needed
    // As of(), for callers that can do without: nullptr also if there is no memory, or none can be allocated now.
    Space* of_if_possible(Stream stream);
    // See time_launches() of gpu/timing.hpp. The stream is then free for others, and so is its space.
    double time_launches(const std::function<void(Stream)>& launch, const Series& series);
    std::size_t nbytes() const;

private:
    void set_memory_aside(int streams);
    Space* take(Stream stream);  // with mutex_ held

    std::size_t bytes_;
    Device device_;
    bool zeroed_;
    mutable Mutex mutex_;
    std::map<Stream, Space> spaces_;
    std::vector<Array<char>> set_aside_;
};

}  // namespace spmvgpu
