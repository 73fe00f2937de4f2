// Array<T>: a length, a device and shared ownership of the memory that holds it. Copying an Array shares the memory.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/memory.hpp"
#include "core/types.hpp"

namespace spmvgpu {

template <class T>
class Array {
public:
    using value_type = T;

    Array() = default;

    explicit Array(std::size_t size, Device device = {})
        : memory_(allocate(size * sizeof(T), device)), size_(size), device_(device), owned_(true) {}

    // A window on memory that its owner must keep alive.
    static Array view(const T* data, std::size_t size, Device device = {}) {
        Array array;
        array.memory_ = std::shared_ptr<void>(const_cast<T*>(data), [](void*) {});
        array.size_ = size;
        array.device_ = device;
        return array;
    }

    // A part of the memory of another array, or all of it: freed with the last copy.
    static Array share(std::shared_ptr<void> memory, std::size_t size, Device device = {}) {
        Array array;
        array.memory_ = std::move(memory);
        array.size_ = size;
        array.device_ = device;
        array.owned_ = true;
        return array;
    }

    // A window that keeps the memory alive as this array does.
    Array part(std::size_t begin, std::size_t size) const {
        Array array = view(data() + begin, size, device_);
        array.memory_ = std::shared_ptr<void>(memory_, array.data());
        return array;
    }

    template <class Allocator>
    static Array from(const std::vector<T, Allocator>& host) {
        Array array(host.size());
        copy_bytes(array.data(), {}, host.data(), {}, array.bytes());
        return array;
    }

    // An array with these contents on a device, in memory of our own: shared if it is there already, copied if not.
    Array to(Device device) const {
        if (device == device_ && owned_) return *this;
        Array copy(size_, device);
        copy_bytes(copy.data(), device, data(), device_, bytes());
        return copy;
    }

    // Returns true if no other array shares the memory.
    bool is_sole_owner() const { return owned_ && memory_.use_count() <= 1; }

    const std::shared_ptr<void>& memory() const { return memory_; }

    T* data() { return static_cast<T*>(memory_.get()); }
    const T* data() const { return static_cast<const T*>(memory_.get()); }
    T& operator[](std::size_t i) { return data()[i]; }
    const T& operator[](std::size_t i) const { return data()[i]; }
    T* begin() { return data(); }
    T* end() { return data() + size_; }
    const T* begin() const { return data(); }
    const T* end() const { return data() + size_; }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }
    Device device() const { return device_; }

private:
    std::shared_ptr<void> memory_;
    std::size_t size_ = 0;
    Device device_;
    bool owned_ = false;
};

}  // namespace spmvgpu
