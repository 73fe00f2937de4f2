// The memory of solves with one operator, kept from one to the next.
#pragma once

#include <cstddef>
#include <vector>

#include "core/array.hpp"
#include "core/mutex.hpp"

namespace spmvgpu {

class SolverMemory {
public:
    explicit SolverMemory(Device device) : device_(device) {}

    // Memory of a size for one solve, until the lease ends.
    class Lease {
    public:
        Lease(SolverMemory& from, std::size_t bytes) : Lease(from, bytes, from.device_) {}
        Lease(SolverMemory& from, std::size_t bytes, Device device);  // on another device than usual
        ~Lease();
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;

        char* data() { return memory_.data(); }

    private:
        SolverMemory& from_;
        Array<char> memory_;
    };

    Device device() const { return device_; }
    std::size_t nbytes() const;  // what no solve uses at the moment, on all devices
    void clear();                // gives that back

private:
    Device device_;
    mutable Mutex mutex_;
    std::vector<Array<char>> idle_;  // one for every solve that ran beside others
};

}  // namespace spmvgpu
