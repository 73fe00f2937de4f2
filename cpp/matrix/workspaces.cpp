#include "matrix/workspaces.hpp"

#include <utility>

#include "core/errors.hpp"
#include "gpu/runtime.hpp"

namespace spmvgpu {

Workspaces::Workspaces(std::size_t bytes, Device device, std::size_t matrix_bytes, bool zeroed)
    : bytes_(bytes), device_(device), zeroed_(zeroed) {
    constexpr int kStreamsExpected = 4;  // if that is cheap
    if (bytes > 0) set_memory_aside(device.queues_work() && bytes < matrix_bytes / 100 ? kStreamsExpected : 1);
    if (!device.queues_work()) of(nullptr);  // now, so that no fork finds the map half changed
}

void Workspaces::set_memory_aside(int streams) {
    for (int i = 0; i < streams; ++i) {
        Array<char> memory(bytes_, device_);
        if (zeroed_) set_zero(memory.data(), device_, bytes_);
        set_aside_.push_back(std::move(memory));
    }
}

Workspaces::Space* Workspaces::of(Stream stream) {
    if (bytes_ == 0) return nullptr;
    const std::lock_guard lock(mutex_);
    return take(stream);
}

Workspaces::Space* Workspaces::of_if_possible(Stream stream) {
    const std::lock_guard lock(mutex_);
    const bool is_at_hand = spaces_.contains(stream) || !set_aside_.empty();
    if (bytes_ == 0 || (!is_at_hand && gpu::is_capturing(stream, device_))) return nullptr;
    try {
        return take(stream);
    } catch (const OutOfMemory&) {
        return nullptr;
    }
}

Workspaces::Space* Workspaces::take(Stream stream) {
    auto found = spaces_.find(stream);
    if (found == spaces_.end()) {
        if (set_aside_.empty()) set_memory_aside(1);
        found = spaces_.try_emplace(stream).first;
        found->second.memory = set_aside_.back();
        set_aside_.pop_back();
        // There is always one more than streams so far, as the next one may be capturing. The product goes on without
        // it.
        if (device_.queues_work() && set_aside_.empty() && !gpu::is_capturing(stream, device_)) {
            try {
                set_memory_aside(1);
            } catch (const OutOfMemory&) {
            }
        }
    }
    return &found->second;
}

double Workspaces::time_launches(const std::function<void(Stream)>& launch, const Series& series) {
    Stream timed = nullptr;
    const double microseconds = spmvgpu::time_launches([&](Stream stream) { launch(timed = stream); }, series, device_);
    if (!device_.queues_work()) return microseconds;
    const std::lock_guard lock(mutex_);
    if (const auto space = spaces_.extract(timed)) set_aside_.push_back(space.mapped().memory);
    return microseconds;
}

std::size_t Workspaces::nbytes() const {
    const std::lock_guard lock(mutex_);
    std::size_t bytes = 0;
    for (const auto& [stream, space] : spaces_) bytes += space.memory.bytes();
    for (const auto& memory : set_aside_) bytes += memory.bytes();
    return bytes;
}

}  // namespace spmvgpu
