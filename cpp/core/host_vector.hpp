// A std::vector for arrays that grow with a matrix: if memory runs out, the error says how much was asked for.
#pragma once

#include <cstddef>
#include <limits>
#include <new>
#include <vector>

#include "core/errors.hpp"
#include "core/memory.hpp"

namespace spmvgpu {

template <class T>
struct HostAllocator {
    using value_type = T;

    HostAllocator() = default;
    template <class U>
    HostAllocator(const HostAllocator<U>&) {}

    T* allocate(std::size_t count) {
        const bool countable = count <= std::numeric_limits<std::size_t>::max() / sizeof(T);
        const std::size_t bytes = countable ? count * sizeof(T) : std::numeric_limits<std::size_t>::max();
        void* const memory = countable ? ::operator new(bytes, std::nothrow) : nullptr;
        if (memory == nullptr) throw OutOfMemory("cpu", bytes, free_host_memory());
        return static_cast<T*>(memory);
    }

    void deallocate(T* memory, std::size_t) { ::operator delete(memory); }

    bool operator==(const HostAllocator&) const = default;
};

template <class T>
using HostVector = std::vector<T, HostAllocator<T>>;

}  // namespace spmvgpu
