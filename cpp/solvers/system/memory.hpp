// The memory of solves with one operator, which later ones reuse.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/array.hpp"
#include "core/mutex.hpp"

namespace spmvgpu {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Hands out memory from an address on, in the order of a list. Without an address it adds up the sizes.
class Arena {
public:
    explicit Arena(char* memory = nullptr) : memory_(reinterpret_cast<std::uintptr_t>(memory)) {}

    template <class U>
    U* take(std::size_t count) {
        const std::uintptr_t from = memory_ + bytes_;
        bytes_ += aligned(count * sizeof(U));
        return reinterpret_cast<U*>(from);
    }
    std::size_t bytes() const { return bytes_; }

private:
    std::uintptr_t memory_;
    std::size_t bytes_ = 0;
};

class SolverMemory {
public:
    explicit SolverMemory(Device device) : device_(device) {}

    // Memory of a size for one solve, until the lease ends.
    class Lease {
    public:
        Lease(SolverMemory& from, std::size_t bytes, Device device);
        // Memory of the size that list(arena) needs. It is called twice, to add up the sizes and to hand out the
        // memory.
        template <class List>
        Lease(SolverMemory& from, Device device, const List& list) : Lease(from, bytes_of(list), device) {
            Arena arena(data());
            list(arena);
        }
        ~Lease();
        Lease(const Lease&) = delete;
        Lease& operator=(const Lease&) = delete;

        char* data() { return memory_.data(); }

    private:
        template <class List>
        static std::size_t bytes_of(const List& list) {
            Arena arena;
            list(arena);
            return arena.bytes();
        }

        SolverMemory& from_;
        Array<char> memory_;
    };

    Device device() const { return device_; }
    std::size_t nbytes() const;  // unused at the moment, on all devices
    void clear();                // frees unused memory

private:
    Device device_;
    mutable Mutex mutex_;
    std::vector<Array<char>> idle_;  // one for every solve that ran beside others
};

}  // namespace spmvgpu
